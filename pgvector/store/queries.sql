-- Every statement the product sends at run time, by name. Each one that reads or writes stored text is filtered by
-- theme (agent_identity), or says after "exempt:" why it is not.

-- name: set_timeouts
-- exempt: touches no table. To compile a plan takes longer than any statement here takes to run. Where an index gives the
-- order, as of a session's turns, it is walked as far as the LIMIT: a planner that takes sessions for short would collect
-- one of thousands of turns and sort it, once for every turn whose neighbours are asked for.
SELECT set_config('statement_timeout', %(statement_ms)s, true) AS statement,
       set_config('lock_timeout', %(lock_ms)s, true) AS lock,
       set_config('idle_in_transaction_session_timeout', %(idle_ms)s, true) AS idle,
       set_config('jit', 'off', true) AS jit,
       set_config('enable_sort', 'off', true) AS sort,
       row_security_active(to_regclass('conversations')) AS row_security;

-- name: has_own_themes
-- exempt: touches no table. Whether row-level security lets this role see some themes only, rather than every theme.
SELECT hermes_themes_of(current_user) <> '{*}' AS own_themes;

-- name: lock_theme
-- exempt: touches no table. Memory writes of one theme take turns, whichever process they come from.
SELECT pg_advisory_xact_lock(731057946, hashtext(%(theme)s));

-- name: claim_operations
-- Returns the ids that were not applied before.
INSERT INTO hermes_operations (agent_identity, op_id)
SELECT * FROM unnest(%(themes)s::text[], %(op_ids)s::uuid[])
ON CONFLICT DO NOTHING
RETURNING op_id;

-- name: forget_operations
-- exempt: housekeeping of operation ids, no stored text.
DELETE FROM hermes_operations WHERE applied_at < now() - make_interval(days => %(days)s);

-- name: copy_turns
-- exempt: every row that follows names its theme.
COPY conversations (session_id, agent_identity, role, content, ts, embedding, metadata, text_language) FROM STDIN (FORMAT binary);

-- name: insert_turns
-- What copy_turns does, where there is row-level security: COPY does not go with it.
INSERT INTO conversations (agent_identity, session_id, role, content, ts, embedding, metadata, text_language)
SELECT * FROM unnest(%(themes)s::text[], %(session_id)s::text[], %(role)s::text[], %(content)s::text[],
                     %(at)s::timestamptz[], %(embedding)s::vector[], %(metadata)s::jsonb[], %(language)s::text[]);

-- name: forget_session
DELETE FROM conversations WHERE agent_identity = %(theme)s AND session_id = %(session_id)s;

-- name: upsert_memory
INSERT INTO memory_entries (agent_identity, target, content, embedding, created_at, updated_at, metadata, text_language)
VALUES (%(theme)s, %(target)s, %(content)s, %(embedding)s, %(at)s, %(at)s, %(metadata)s, %(language)s)
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET updated_at = greatest(memory_entries.updated_at, excluded.updated_at),
       embedding = coalesce(memory_entries.embedding, excluded.embedding), sig = coalesce(memory_entries.sig, excluded.sig);

-- name: clear_tombstone
DELETE FROM hermes_tombstones
 WHERE agent_identity = %(theme)s AND target = %(target)s AND digest = hermes_digest(%(content)s);

-- name: note_mirrored
INSERT INTO hermes_mirror (agent_identity, origin, target, digest, announced, noted_at)
VALUES (%(theme)s, %(origin)s, %(target)s, hermes_digest(%(content)s), %(announced)s, %(at)s)
ON CONFLICT (agent_identity, origin, target, digest) DO UPDATE
   SET announced = hermes_mirror.announced OR excluded.announced,
       noted_at = greatest(hermes_mirror.noted_at, excluded.noted_at);

-- name: take_over_mirrored
-- exempt: moves an entry of this host's own file from the theme it was guessed for to the theme that wrote it.
WITH guessed AS (
    DELETE FROM hermes_mirror
     WHERE origin = %(origin)s AND target = %(target)s AND digest = hermes_digest(%(content)s)
       AND NOT announced AND agent_identity <> %(theme)s
    RETURNING agent_identity, digest)
DELETE FROM memory_entries AS m USING guessed
 WHERE m.agent_identity = guessed.agent_identity AND m.target = %(target)s AND m.digest = guessed.digest
   AND m.metadata ->> 'source' = 'file';

-- name: find_memory
-- The entries `old_text` may mean: in this theme, or in this host's own file whichever theme owns the entry there.
SELECT m.id, m.agent_identity, m.content, m.content = %(old_text)s AS whole,
       EXISTS (SELECT FROM hermes_mirror AS f
                WHERE f.agent_identity = m.agent_identity AND f.origin = %(origin)s
                  AND f.target = m.target AND f.digest = m.digest) AS in_file
  FROM memory_entries AS m
 WHERE m.agent_identity = %(theme)s AND m.target = %(target)s AND position(%(old_text)s IN m.content) > 0
UNION
SELECT m.id, m.agent_identity, m.content, m.content = %(old_text)s, true
  FROM hermes_mirror AS f
  JOIN memory_entries AS m
    ON m.agent_identity = f.agent_identity AND m.target = f.target AND m.digest = f.digest
 WHERE f.origin = %(origin)s AND f.target = %(target)s AND position(%(old_text)s IN m.content) > 0;

-- name: delete_memory
WITH gone AS (
    DELETE FROM memory_entries WHERE agent_identity = %(theme)s AND id = %(id)s
    RETURNING agent_identity, target, digest),
unmirrored AS (
    DELETE FROM hermes_mirror AS f USING gone
     WHERE f.agent_identity = gone.agent_identity AND f.origin = %(origin)s
       AND f.target = gone.target AND f.digest = gone.digest)
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at)
SELECT agent_identity, target, digest, %(at)s FROM gone
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET removed_at = greatest(hermes_tombstones.removed_at, excluded.removed_at);

-- name: remember_memory
-- A text that the theme holds already is confirmed, and gets what is said of it now.
INSERT INTO memory_entries (agent_identity, target, content, embedding, created_at, updated_at, metadata, text_language)
VALUES (%(theme)s, %(target)s, %(content)s, %(embedding)s, %(at)s, %(at)s, %(metadata)s, %(language)s)
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET updated_at = greatest(memory_entries.updated_at, excluded.updated_at),
       embedding = coalesce(memory_entries.embedding, excluded.embedding), sig = coalesce(memory_entries.sig, excluded.sig),
       metadata = memory_entries.metadata || %(given)s;

-- name: memory_id
SELECT id FROM memory_entries
 WHERE agent_identity = %(theme)s AND target = %(target)s AND digest = hermes_digest(%(content)s);

-- name: memories_by_id
SELECT id, target, content, updated_at AS at FROM memory_entries
 WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s) ORDER BY id;

-- name: forget_memories
-- Files that hold the entries stay noted as read: what is forgotten is not read in again.
WITH gone AS (
    DELETE FROM memory_entries WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s)
    RETURNING agent_identity, target, digest)
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at)
SELECT agent_identity, target, digest, %(at)s FROM gone
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET removed_at = greatest(hermes_tombstones.removed_at, excluded.removed_at);

-- name: newest_memories
-- Of a long text the beginning.
WITH newest AS MATERIALIZED (
    SELECT id, updated_at FROM memory_entries
     WHERE agent_identity = %(theme)s AND target = %(target)s
     ORDER BY updated_at DESC, id DESC LIMIT %(limit)s)
SELECT m.id, m.updated_at AS at, left(m.content, %(chars)s) AS content, length(m.content) AS chars
  FROM newest JOIN memory_entries AS m ON m.id = newest.id
 ORDER BY newest.updated_at DESC, newest.id DESC;

-- name: count_memories
SELECT target, count(*) AS count FROM memory_entries WHERE agent_identity = %(theme)s GROUP BY target;

-- name: replace_memory
UPDATE memory_entries
   SET content = %(content)s, embedding = %(embedding)s, sig = binary_quantize(%(embedding)s::vector), embed_after = NULL,
       updated_at = %(at)s, metadata = %(metadata)s,
       text_language = %(language)s
 WHERE agent_identity = %(theme)s AND id = %(id)s;

-- name: bury_memory
-- A replaced text leaves a tombstone, and this host's file no longer holds it.
WITH gone AS (
    SELECT agent_identity, target, digest FROM memory_entries WHERE agent_identity = %(theme)s AND id = %(id)s),
unmirrored AS (
    DELETE FROM hermes_mirror AS f USING gone
     WHERE f.agent_identity = gone.agent_identity AND f.origin = %(origin)s
       AND f.target = gone.target AND f.digest = gone.digest)
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at)
SELECT agent_identity, target, digest, %(at)s FROM gone
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET removed_at = greatest(hermes_tombstones.removed_at, excluded.removed_at);

-- name: memory_exists
SELECT EXISTS (SELECT FROM memory_entries
                WHERE agent_identity = %(theme)s AND target = %(target)s AND digest = hermes_digest(%(content)s));

-- name: mirror_difference
-- exempt: compares this host's own file with what was read from it before, whichever theme owns an entry.
-- kind 'new': an entry of the file nobody has seen; 'buried': one that was removed elsewhere after the file was written;
-- 'gone': a seen entry that the file no longer holds. An entry noted after the file was read is left alone.
WITH now_in_file AS (
    SELECT DISTINCT content, hermes_digest(content) AS digest FROM unnest(%(contents)s::text[]) AS content),
seen AS (
    SELECT agent_identity, digest, noted_at FROM hermes_mirror WHERE origin = %(origin)s AND target = %(target)s)
SELECT CASE WHEN EXISTS (SELECT FROM hermes_tombstones AS t
                          WHERE t.agent_identity = %(theme)s AND t.target = %(target)s AND t.digest = n.digest
                            AND t.removed_at >= %(file_time)s)
            THEN 'buried' ELSE 'new' END AS kind,
       NULL::bigint AS id, %(theme)s AS theme, n.content
  FROM now_in_file AS n
 WHERE NOT EXISTS (SELECT FROM seen WHERE seen.digest = n.digest)
UNION ALL
SELECT 'gone', m.id, seen.agent_identity, NULL
  FROM seen
  LEFT JOIN memory_entries AS m
    ON m.agent_identity = seen.agent_identity AND m.target = %(target)s AND m.digest = seen.digest
 WHERE seen.noted_at <= %(at)s
   AND NOT EXISTS (SELECT FROM now_in_file AS n WHERE n.digest = seen.digest);

-- name: forget_mirrored
-- exempt: this host's own file no longer holds these entries, whichever theme owns them.
DELETE FROM hermes_mirror
 WHERE origin = %(origin)s AND target = %(target)s AND noted_at <= %(at)s
   AND NOT digest = ANY (SELECT hermes_digest(content) FROM unnest(%(contents)s::text[]) AS content);

-- name: hold_space
-- exempt: touches no table. Until the transaction ends no other model's vectors take the place of these.
SELECT pg_advisory_xact_lock_shared(731057947);

-- name: record_space
-- exempt: the name of the embedding model, no stored text.
UPDATE hermes_embedding
   SET model = %(model)s, document_prefix = %(document_prefix)s, query_prefix = %(query_prefix)s, recorded_at = now()
 WHERE model IS NULL;

-- name: read_space
-- exempt: the name of the embedding model, no stored text.
SELECT model, document_prefix, query_prefix,
       (SELECT atttypmod FROM pg_attribute
         WHERE attrelid = 'memory_entries'::regclass AND attname = 'embedding') AS dims
  FROM hermes_embedding;

-- name: known_vectors
-- Of texts given by theme and digest, the vector that the theme's rows hold of the same text. The index knows turns by the
-- head of the digest; `|| ''`, lest the planner read a theme that it takes for small.
SELECT wanted.number, known.embedding
  FROM unnest(%(themes)s::text[], %(digests)s::bytea[]) WITH ORDINALITY AS wanted(theme, digest, number)
 CROSS JOIN LATERAL (
    (SELECT embedding FROM memory_entries AS m
      WHERE m.agent_identity = wanted.theme AND m.target = 'memory' AND m.digest = wanted.digest
        AND m.embedding IS NOT NULL)
    UNION ALL
    (SELECT embedding FROM memory_entries AS m
      WHERE m.agent_identity = wanted.theme AND m.target = 'user' AND m.digest = wanted.digest
        AND m.embedding IS NOT NULL)
    UNION ALL
    (SELECT embedding FROM conversations AS c
      WHERE substr(hermes_digest(c.content), 1, 8) = substr(wanted.digest, 1, 8)
        AND hermes_digest(c.content) = wanted.digest AND c.agent_identity || '' = wanted.theme
        AND c.embedding IS NOT NULL
      LIMIT 1)
    LIMIT 1) AS known;

-- name: claim_pending_memories
-- exempt: embeds rows of every theme; the text goes to the embedding endpoint only and comes back as its own row's vector.
UPDATE memory_entries AS m SET embed_after = now() + make_interval(secs => %(lease_s)s)
 WHERE m.id IN (SELECT id FROM memory_entries
                 WHERE embedding IS NULL AND (embed_after IS NULL OR embed_after < now())
                 ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
RETURNING m.id, m.agent_identity AS theme, m.content;

-- name: claim_pending_turns
-- exempt: as claim_pending_memories.
UPDATE conversations AS c SET embed_after = now() + make_interval(secs => %(lease_s)s)
 WHERE c.id IN (SELECT id FROM conversations
                 WHERE embedding IS NULL AND (embed_after IS NULL OR embed_after < now())
                 ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
RETURNING c.id, c.agent_identity AS theme, c.content;

-- name: postpone_memories
-- exempt: as claim_pending_memories.
UPDATE memory_entries SET embed_after = now() + make_interval(secs => %(pause_s)s)
 WHERE id = ANY(%(ids)s) AND embedding IS NULL;

-- name: postpone_turns
-- exempt: as claim_pending_memories.
UPDATE conversations SET embed_after = now() + make_interval(secs => %(pause_s)s)
 WHERE id = ANY(%(ids)s) AND embedding IS NULL;

-- name: clear_chunks_memories
-- exempt: as claim_pending_memories. Not where another process was faster.
DELETE FROM memory_chunks WHERE row_id = ANY(%(ids)s)
   AND EXISTS (SELECT FROM memory_entries AS t WHERE t.id = row_id AND t.embedding IS NULL);

-- name: clear_chunks_turns
-- exempt: as clear_chunks_memories.
DELETE FROM conversation_chunks WHERE row_id = ANY(%(ids)s)
   AND EXISTS (SELECT FROM conversations AS t WHERE t.id = row_id AND t.embedding IS NULL);

-- name: fill_memories
-- exempt: as claim_pending_memories. The digest makes sure that the text did not change meanwhile.
WITH filled AS (
    UPDATE memory_entries SET embedding = %(embedding)s, sig = binary_quantize(%(embedding)s::vector), embed_after = NULL
     WHERE id = %(id)s AND embedding IS NULL AND digest = hermes_digest(%(content)s)
    RETURNING id, agent_identity)
INSERT INTO memory_chunks (row_id, part, agent_identity, first_char, embedding, sig)
SELECT filled.id, chunk.part, filled.agent_identity, chunk.first_char, chunk.embedding, binary_quantize(chunk.embedding)
  FROM filled
 CROSS JOIN unnest(%(first_chars)s::integer[], %(embeddings)s::vector[])
       WITH ORDINALITY AS chunk(first_char, embedding, part);

-- name: fill_turns
-- exempt: as claim_pending_memories.
WITH filled AS (
    UPDATE conversations SET embedding = %(embedding)s, sig = binary_quantize(%(embedding)s::vector), embed_after = NULL
     WHERE id = %(id)s AND embedding IS NULL AND content = %(content)s
    RETURNING id, agent_identity)
INSERT INTO conversation_chunks (row_id, part, agent_identity, first_char, embedding, sig)
SELECT filled.id, chunk.part, filled.agent_identity, chunk.first_char, chunk.embedding, binary_quantize(chunk.embedding)
  FROM filled
 CROSS JOIN unnest(%(first_chars)s::integer[], %(embeddings)s::vector[])
       WITH ORDINALITY AS chunk(first_char, embedding, part);

-- name: no_vectors
-- exempt: whether there are any, no stored text.
SELECT NOT EXISTS (SELECT FROM memory_entries WHERE embedding IS NOT NULL)
   AND NOT EXISTS (SELECT FROM conversations WHERE embedding IS NOT NULL) AS empty;

-- name: sample_texts
-- exempt: as claim_pending_memories; for the speed of a new model.
(SELECT content FROM conversations ORDER BY id DESC LIMIT %(limit)s)
UNION ALL (SELECT content FROM memory_entries ORDER BY id DESC LIMIT %(limit)s) LIMIT %(limit)s;

-- name: begin_vectors
-- exempt: touches no table.
SELECT set_config('statement_timeout', %(statement_ms)s, true) AS statement;

-- name: vector_search_memories
-- `+ 0` keeps every other index out: the signatures of one theme come from its covering index, then the nearest are
-- reranked exactly. `OFFSET 0` has these looked up one by one, where a planner without the sizes at hand may read the
-- whole table for them. In a large theme more of them are taken. Pending rows are left out by `sig IS NOT NULL`, which that index holds, never by the embedding,
-- which it does not.
WITH candidates AS MATERIALIZED (
    SELECT id FROM memory_entries
     WHERE agent_identity = %(theme)s AND sig IS NOT NULL
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0
     LIMIT CASE WHEN EXISTS (SELECT FROM memory_entries
                              WHERE agent_identity = %(theme)s AND sig IS NOT NULL OFFSET %(large)s)
                THEN %(deep)s ELSE %(depth)s END)
SELECT id, 1 - (embedding <=> %(vector)s) AS similarity
  FROM candidates CROSS JOIN LATERAL (SELECT embedding FROM memory_entries AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY (embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_memories_filtered
-- The filter stands before the cut, so that a rare target or session is not cut away.
WITH candidates AS MATERIALIZED (
    SELECT id FROM memory_entries
     WHERE agent_identity = %(theme)s AND sig IS NOT NULL
       AND (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0
     LIMIT CASE WHEN EXISTS (SELECT FROM memory_entries
                              WHERE agent_identity = %(theme)s AND sig IS NOT NULL OFFSET %(large)s)
                THEN %(deep)s ELSE %(depth)s END)
SELECT id, 1 - (embedding <=> %(vector)s) AS similarity
  FROM candidates CROSS JOIN LATERAL (SELECT embedding FROM memory_entries AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY (embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_memories_all
-- exempt: the explicit scope 'all'.
WITH candidates AS MATERIALIZED (
    SELECT id FROM memory_entries
     WHERE sig IS NOT NULL
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT id, 1 - (embedding <=> %(vector)s) AS similarity
  FROM candidates CROSS JOIN LATERAL (SELECT embedding FROM memory_entries AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY (embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_memories_all_filtered
-- exempt: the explicit scope 'all'.
WITH candidates AS MATERIALIZED (
    SELECT id FROM memory_entries
     WHERE sig IS NOT NULL
       AND (%(target)s::text IS NULL OR target = %(target)s)
       AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT id, 1 - (embedding <=> %(vector)s) AS similarity
  FROM candidates CROSS JOIN LATERAL (SELECT embedding FROM memory_entries AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY (embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: walk_vectors
-- exempt: touches no table. How vectors come from their graph. That they do, though the planner takes the table for small
-- or the LIMIT for large, is because of `set_timeouts`: any other way would be a sort.
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true) AS iterative,
       set_config('hnsw.ef_search', %(breadth)s::text, true) AS breadth,
       set_config('hnsw.max_scan_tuples', %(most)s::text, true) AS most,
       set_config('hnsw.scan_mem_multiplier', '8', true) AS memory;

-- name: plan_for_values
-- exempt: touches no table. Whether a filter across all themes lets one row pass or all, no plan can serve both.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true) AS mode;

-- name: has_graph
-- exempt: reads the catalogue only. An operator may have dropped the index for a bulk load, or a build may have failed.
SELECT EXISTS (SELECT FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam
                WHERE i.indrelid = %(table)s::regclass AND i.indisvalid AND a.amname = 'hnsw') AS found;

-- name: vector_search_memories_walk
-- exempt: the explicit scope 'all'. After `walk_vectors`: the index gives rows nearly in order, and goes on until enough
-- have passed the filter.
WITH candidates AS MATERIALIZED (
    SELECT id, embedding <=> %(vector)s AS distance FROM memory_entries
     WHERE (%(target)s::text IS NULL OR target = %(target)s)
       AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz
     ORDER BY embedding <=> %(vector)s LIMIT %(depth)s)
SELECT id, 1 - distance AS similarity FROM candidates ORDER BY distance + 0 LIMIT %(limit)s;

-- name: estimate_matches_memories
-- exempt: the explicit scope 'all'. As estimate_rows_memories, of the rows that pass a filter.
EXPLAIN (FORMAT JSON) SELECT FROM memory_entries
 WHERE (%(target)s::text IS NULL OR target = %(target)s)
   AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz;

-- name: vector_search_turns
WITH candidates AS MATERIALIZED (
    SELECT id FROM conversations
     WHERE agent_identity = %(theme)s AND sig IS NOT NULL
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0
     LIMIT CASE WHEN EXISTS (SELECT FROM conversations
                              WHERE agent_identity = %(theme)s AND sig IS NOT NULL OFFSET %(large)s)
                THEN %(deep)s ELSE %(depth)s END)
SELECT id, 1 - (embedding <=> %(vector)s) AS similarity
  FROM candidates CROSS JOIN LATERAL (SELECT embedding FROM conversations AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY (embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_turns_filtered
WITH candidates AS MATERIALIZED (
    SELECT id FROM conversations
     WHERE agent_identity = %(theme)s AND sig IS NOT NULL
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0
     LIMIT CASE WHEN EXISTS (SELECT FROM conversations
                              WHERE agent_identity = %(theme)s AND sig IS NOT NULL OFFSET %(large)s)
                THEN %(deep)s ELSE %(depth)s END)
SELECT id, 1 - (embedding <=> %(vector)s) AS similarity
  FROM candidates CROSS JOIN LATERAL (SELECT embedding FROM conversations AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY (embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_turns_session
WITH candidates AS MATERIALIZED (
    SELECT id FROM conversations
     WHERE agent_identity = %(theme)s AND session_id = %(session_id)s AND sig IS NOT NULL
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT id, 1 - (embedding <=> %(vector)s) AS similarity
  FROM candidates CROSS JOIN LATERAL (SELECT embedding FROM conversations AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY (embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_turns_all
-- exempt: the explicit scope 'all'.
WITH candidates AS MATERIALIZED (
    SELECT id FROM conversations
     WHERE sig IS NOT NULL
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT id, 1 - (embedding <=> %(vector)s) AS similarity
  FROM candidates CROSS JOIN LATERAL (SELECT embedding FROM conversations AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY (embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_turns_all_filtered
-- exempt: the explicit scope 'all'.
WITH candidates AS MATERIALIZED (
    SELECT id FROM conversations
     WHERE sig IS NOT NULL
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT id, 1 - (embedding <=> %(vector)s) AS similarity
  FROM candidates CROSS JOIN LATERAL (SELECT embedding FROM conversations AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY (embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_turns_walk
-- exempt: the explicit scope 'all'. After `walk_vectors`: the index gives rows nearly in order, and goes on until enough
-- have passed the filter.
WITH candidates AS MATERIALIZED (
    SELECT id, embedding <=> %(vector)s AS distance FROM conversations
     WHERE (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
     ORDER BY embedding <=> %(vector)s LIMIT %(depth)s)
SELECT id, 1 - distance AS similarity FROM candidates ORDER BY distance + 0 LIMIT %(limit)s;

-- name: estimate_matches_turns
-- exempt: the explicit scope 'all'. As estimate_rows_turns, of the rows that pass a filter.
EXPLAIN (FORMAT JSON) SELECT FROM conversations
 WHERE (%(role)s::text IS NULL OR role = %(role)s)
   AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz;

-- name: chunk_search_memories
-- The parts of long texts, as vector_search_memories; a row counts by its nearest part. The filter is looked at only where
-- there is one.
WITH candidates AS MATERIALIZED (
    SELECT row_id, part FROM memory_chunks
     WHERE agent_identity = %(theme)s
       AND CASE WHEN %(restricted)s THEN EXISTS (
             SELECT FROM memory_entries AS t WHERE t.id = row_id
                AND (%(target)s::text IS NULL OR target = %(target)s)
                AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
                AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz) ELSE true END
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT row_id AS id, 1 - min(embedding <=> %(vector)s) AS similarity
  FROM candidates JOIN memory_chunks USING (row_id, part)
 GROUP BY row_id ORDER BY 2 DESC, row_id LIMIT %(limit)s;

-- name: chunk_search_memories_all
-- exempt: the explicit scope 'all'.
WITH candidates AS MATERIALIZED (
    SELECT row_id, part FROM memory_chunks
     WHERE true
       AND CASE WHEN %(restricted)s THEN EXISTS (
             SELECT FROM memory_entries AS t WHERE t.id = row_id
                AND (%(target)s::text IS NULL OR target = %(target)s)
                AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
                AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz) ELSE true END
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT row_id AS id, 1 - min(embedding <=> %(vector)s) AS similarity
  FROM candidates JOIN memory_chunks USING (row_id, part)
 GROUP BY row_id ORDER BY 2 DESC, row_id LIMIT %(limit)s;

-- name: chunk_search_turns
WITH candidates AS MATERIALIZED (
    SELECT row_id, part FROM conversation_chunks
     WHERE agent_identity = %(theme)s
       AND CASE WHEN %(restricted)s THEN EXISTS (
             SELECT FROM conversations AS t WHERE t.id = row_id
                AND (%(role)s::text IS NULL OR role = %(role)s)
                AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
                AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz) ELSE true END
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT row_id AS id, 1 - min(embedding <=> %(vector)s) AS similarity
  FROM candidates JOIN conversation_chunks USING (row_id, part)
 GROUP BY row_id ORDER BY 2 DESC, row_id LIMIT %(limit)s;

-- name: chunk_search_turns_all
-- exempt: the explicit scope 'all'.
WITH candidates AS MATERIALIZED (
    SELECT row_id, part FROM conversation_chunks
     WHERE true
       AND CASE WHEN %(restricted)s THEN EXISTS (
             SELECT FROM conversations AS t WHERE t.id = row_id
                AND (%(role)s::text IS NULL OR role = %(role)s)
                AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
                AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz) ELSE true END
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT row_id AS id, 1 - min(embedding <=> %(vector)s) AS similarity
  FROM candidates JOIN conversation_chunks USING (row_id, part)
 GROUP BY row_id ORDER BY 2 DESC, row_id LIMIT %(limit)s;

-- name: neighbours
-- The turns right before and after each of some turns, in the same session of the same theme,
-- nearest first. A CASE keeps the indexes of the theme out: one of them, read whole for every turn, is what the planner
-- likes to add to the session's.
SELECT c.id,
       ARRAY(SELECT p.id FROM conversations AS p
              WHERE p.session_id = c.session_id AND (p.ts, p.id) < (c.ts, c.id)
                AND CASE WHEN p.agent_identity = c.agent_identity THEN true ELSE false END
              ORDER BY p.ts DESC, p.id DESC LIMIT %(reach)s) AS before,
       ARRAY(SELECT n.id FROM conversations AS n
              WHERE n.session_id = c.session_id AND (n.ts, n.id) > (c.ts, c.id)
                AND CASE WHEN n.agent_identity = c.agent_identity THEN true ELSE false END
              ORDER BY n.ts, n.id LIMIT %(reach)s) AS after
  FROM conversations AS c
 WHERE c.id = ANY(%(ids)s) AND CASE WHEN c.agent_identity = %(theme)s THEN true ELSE %(any_theme)s END;

-- name: dated_memories
-- Which of some rows were written in one of some periods.
SELECT id FROM memory_entries
 WHERE id = ANY(%(ids)s) AND CASE WHEN agent_identity = %(theme)s THEN true ELSE %(any_theme)s END
   AND EXISTS (SELECT FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS period(start, stop)
                WHERE updated_at >= start AND updated_at < stop);

-- name: dated_turns
SELECT id FROM conversations
 WHERE id = ANY(%(ids)s) AND CASE WHEN agent_identity = %(theme)s THEN true ELSE %(any_theme)s END
   AND EXISTS (SELECT FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS period(start, stop)
                WHERE ts >= start AND ts < stop);

-- name: read_question
-- exempt: touches no table. The words of each text as the index knows them. Besides: "the newest 1,000 rows" must walk an
-- index in order; where the planner takes a theme for small (a generic plan, no ANALYZE yet), it would else collect the
-- whole theme and sort it. For words that are not sorted, tsvectors being so already, that costs nothing.
SELECT number, tsvector_to_array(hermes_lexemes(body, language)) AS terms,
       to_regprocedure('similarity(text,text)') IS NOT NULL AS has_trigrams,
       set_config('enable_sort', 'off', true) AS sort
  FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS given(body, number)
 CROSS JOIN unnest(%(languages)s::text[]) AS language;

-- name: query_terms_memories
-- In how many rows of a sample each word of a question stands. `rows` ends at 5,001: up to 5,000 rows are searched
-- exactly and need no sample.
WITH words AS MATERIALIZED (
    SELECT matcher, matcher::tsquery AS query FROM unnest(%(matchers)s::text[]) AS matcher),
size AS MATERIALIZED (
    SELECT count(*) AS n FROM (
        SELECT FROM memory_entries WHERE agent_identity = %(theme)s ORDER BY created_at DESC LIMIT 5001) AS counted),
sample AS MATERIALIZED (
    SELECT tsv FROM memory_entries WHERE agent_identity = %(theme)s AND (SELECT n > 5000 FROM size)
     ORDER BY created_at DESC LIMIT 1000)
SELECT matcher, size.n AS rows, (SELECT count(*) FROM sample) AS sampled,
       (SELECT count(*) FROM sample WHERE tsv @@ query) AS holding
  FROM words CROSS JOIN size;

-- name: query_terms_memories_all
-- exempt: the explicit scope 'all'.
WITH words AS MATERIALIZED (
    SELECT matcher, matcher::tsquery AS query FROM unnest(%(matchers)s::text[]) AS matcher),
size AS MATERIALIZED (
    SELECT count(*) AS n FROM (SELECT FROM memory_entries LIMIT 5001) AS counted),
sample AS MATERIALIZED (
    SELECT tsv FROM memory_entries WHERE (SELECT n > 5000 FROM size)
     ORDER BY id DESC LIMIT 1000)
SELECT matcher, size.n AS rows, (SELECT count(*) FROM sample) AS sampled,
       (SELECT count(*) FROM sample WHERE tsv @@ query) AS holding
  FROM words CROSS JOIN size;

-- name: query_terms_turns
-- As query_terms_memories; a part of the sample is spread over the theme's whole time, for what is talked about changes.
WITH words AS MATERIALIZED (
    SELECT matcher, matcher::tsquery AS query FROM unnest(%(matchers)s::text[]) AS matcher),
size AS MATERIALIZED (
    SELECT count(*) AS n FROM (
        SELECT FROM conversations WHERE agent_identity = %(theme)s ORDER BY ts DESC LIMIT 5001) AS counted),
span AS (
    SELECT min(ts) AS first, max(ts) - min(ts) AS width FROM conversations WHERE agent_identity = %(theme)s),
sample AS MATERIALIZED (
    SELECT DISTINCT ON (id) id, tsv FROM (
        (SELECT id, tsv FROM conversations WHERE agent_identity = %(theme)s AND (SELECT n > 5000 FROM size)
          ORDER BY ts DESC LIMIT 700)
        UNION ALL
        (SELECT one.id, one.tsv
           FROM span CROSS JOIN generate_series(1, CASE WHEN (SELECT n > 5000 FROM size) THEN 300 ELSE 0 END) AS k
          CROSS JOIN LATERAL (SELECT id, tsv FROM conversations
                               WHERE agent_identity = %(theme)s AND ts >= span.first + span.width * (k / 301.0::float8)
                               ORDER BY ts LIMIT 1) AS one)) AS rows)
SELECT matcher, size.n AS rows, (SELECT count(*) FROM sample) AS sampled,
       (SELECT count(*) FROM sample WHERE tsv @@ query) AS holding
  FROM words CROSS JOIN size;

-- name: query_terms_turns_all
-- exempt: the explicit scope 'all'.
WITH words AS MATERIALIZED (
    SELECT matcher, matcher::tsquery AS query FROM unnest(%(matchers)s::text[]) AS matcher),
size AS MATERIALIZED (
    SELECT count(*) AS n FROM (SELECT FROM conversations LIMIT 5001) AS counted),
span AS (
    SELECT min(id) AS first, max(id) - min(id) AS width FROM conversations),
sample AS MATERIALIZED (
    SELECT DISTINCT ON (id) id, tsv FROM (
        (SELECT id, tsv FROM conversations WHERE (SELECT n > 5000 FROM size)
          ORDER BY id DESC LIMIT 700)
        UNION ALL
        (SELECT one.id, one.tsv
           FROM span CROSS JOIN generate_series(1, CASE WHEN (SELECT n > 5000 FROM size) THEN 300 ELSE 0 END) AS k
          CROSS JOIN LATERAL (SELECT id, tsv FROM conversations
                               WHERE id >= span.first + span.width * k / 301
                               ORDER BY id LIMIT 1) AS one)) AS rows)
SELECT matcher, size.n AS rows, (SELECT count(*) FROM sample) AS sampled,
       (SELECT count(*) FROM sample WHERE tsv @@ query) AS holding
  FROM words CROSS JOIN size;

-- name: estimate_rows_memories
-- The planner's own estimate: to count a large theme takes longer than to search it.
EXPLAIN (FORMAT JSON) SELECT FROM memory_entries WHERE agent_identity = %(theme)s OR %(any_theme)s;

-- name: estimate_rows_turns
EXPLAIN (FORMAT JSON) SELECT FROM conversations WHERE agent_identity = %(theme)s OR %(any_theme)s;

-- name: lexical_search_memories
-- Rows come from the index for `match`, the rarer words of the question behind the theme's lexeme, and where that leaves
-- words out (`recent`), from the newest rows of the theme. Each word weighs by how rare it is in the theme (BM25's idf),
-- by the estimate in `holding` or else by the rows found; one that no row holds weighs `absent` of what it would if one
-- did, and all those together no more than eight words. Coverage is the share of the question's weight that a row holds, 0 to 1. Nothing but `@@` stands in `matching`, so that no other index can be preferred, and no LIMIT, which
-- would make the planner prefer to read the table; it is read only as far as the LIMIT of `hits` asks.
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, absent, word
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[], %(absent)s::float8[])
           WITH ORDINALITY AS given(matcher, holding, absent, word)),
matching AS MATERIALIZED (
    SELECT id, agent_identity, tsv, target, metadata, updated_at FROM memory_entries
     WHERE tsv @@ (('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery)),
recent AS MATERIALIZED (
    SELECT id, tsv
      FROM (SELECT id, agent_identity, tsv, target, metadata, updated_at FROM memory_entries
             WHERE agent_identity = %(theme)s
               AND %(recent)s::boolean
             ORDER BY created_at DESC LIMIT 1000) AS newest
     WHERE (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND updated_at >= %(since)s::timestamptz
       AND updated_at < %(until)s::timestamptz
       AND (tsv @@ %(match)s::tsquery) IS NOT TRUE),
hits AS MATERIALIZED (
    (SELECT id, tsv FROM matching
     WHERE agent_identity = %(theme)s
       AND (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND updated_at >= %(since)s::timestamptz
       AND updated_at < %(until)s::timestamptz
     LIMIT 10000)
    UNION ALL SELECT id, tsv FROM recent),
found AS MATERIALIZED (
    SELECT id, word FROM hits JOIN words ON hits.tsv @@ words.query),
weights AS (
    -- In millionths and whole, so that rows with the same words have the same sum whatever the order of adding.
    SELECT word, held,
           (1e6 * CASE WHEN held > 0 THEN 1 ELSE absent * least(1, 8 / sum(absent) FILTER (WHERE held = 0) OVER ()) END
                * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (greatest(held, 1) + 0.5)))::integer AS idf
      FROM (SELECT word, absent, coalesce(holding, count(found.id)) AS held
              FROM words LEFT JOIN found USING (word) GROUP BY word, holding, absent) AS counted)
SELECT id, sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage,
       ARRAY(SELECT word FROM weights WHERE held = 0) AS absent
  FROM found JOIN weights USING (word)
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

-- name: lexical_search_memories_all
-- exempt: the explicit scope 'all'.
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, absent, word
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[], %(absent)s::float8[])
           WITH ORDINALITY AS given(matcher, holding, absent, word)),
matching AS MATERIALIZED (
    SELECT id, agent_identity, tsv, target, metadata, updated_at FROM memory_entries
     WHERE tsv @@ %(match)s::tsquery),
recent AS MATERIALIZED (
    SELECT id, tsv
      FROM (SELECT id, agent_identity, tsv, target, metadata, updated_at FROM memory_entries
             WHERE %(recent)s::boolean
             ORDER BY id DESC LIMIT 1000) AS newest
     WHERE (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND updated_at >= %(since)s::timestamptz
       AND updated_at < %(until)s::timestamptz
       AND (tsv @@ %(match)s::tsquery) IS NOT TRUE),
hits AS MATERIALIZED (
    (SELECT id, tsv FROM matching
     WHERE (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND updated_at >= %(since)s::timestamptz
       AND updated_at < %(until)s::timestamptz
     LIMIT 10000)
    UNION ALL SELECT id, tsv FROM recent),
found AS MATERIALIZED (
    SELECT id, word FROM hits JOIN words ON hits.tsv @@ words.query),
weights AS (
    -- In millionths and whole, so that rows with the same words have the same sum whatever the order of adding.
    SELECT word, held,
           (1e6 * CASE WHEN held > 0 THEN 1 ELSE absent * least(1, 8 / sum(absent) FILTER (WHERE held = 0) OVER ()) END
                * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (greatest(held, 1) + 0.5)))::integer AS idf
      FROM (SELECT word, absent, coalesce(holding, count(found.id)) AS held
              FROM words LEFT JOIN found USING (word) GROUP BY word, holding, absent) AS counted)
SELECT id, sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage,
       ARRAY(SELECT word FROM weights WHERE held = 0) AS absent
  FROM found JOIN weights USING (word)
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

-- name: lexical_search_turns
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, absent, word
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[], %(absent)s::float8[])
           WITH ORDINALITY AS given(matcher, holding, absent, word)),
matching AS MATERIALIZED (
    SELECT id, agent_identity, tsv, role, ts FROM conversations
     WHERE tsv @@ (('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery)),
recent AS MATERIALIZED (
    SELECT id, tsv
      FROM (SELECT id, agent_identity, tsv, role, ts FROM conversations
             WHERE agent_identity = %(theme)s
               AND ts >= %(since)s::timestamptz
               AND ts < %(until)s::timestamptz
               AND %(recent)s::boolean
             ORDER BY ts DESC LIMIT 1000) AS newest
     WHERE (%(role)s::text IS NULL OR role = %(role)s)
       AND (tsv @@ %(match)s::tsquery) IS NOT TRUE),
hits AS MATERIALIZED (
    (SELECT id, tsv FROM matching
     WHERE agent_identity = %(theme)s
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz
       AND ts < %(until)s::timestamptz
     LIMIT 10000)
    UNION ALL SELECT id, tsv FROM recent),
found AS MATERIALIZED (
    SELECT id, word FROM hits JOIN words ON hits.tsv @@ words.query),
weights AS (
    -- In millionths and whole, so that rows with the same words have the same sum whatever the order of adding.
    SELECT word, held,
           (1e6 * CASE WHEN held > 0 THEN 1 ELSE absent * least(1, 8 / sum(absent) FILTER (WHERE held = 0) OVER ()) END
                * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (greatest(held, 1) + 0.5)))::integer AS idf
      FROM (SELECT word, absent, coalesce(holding, count(found.id)) AS held
              FROM words LEFT JOIN found USING (word) GROUP BY word, holding, absent) AS counted)
SELECT id, sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage,
       ARRAY(SELECT word FROM weights WHERE held = 0) AS absent
  FROM found JOIN weights USING (word)
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

-- name: lexical_search_turns_session
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, absent, word
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[], %(absent)s::float8[])
           WITH ORDINALITY AS given(matcher, holding, absent, word)),
matching AS MATERIALIZED (
    SELECT id, agent_identity, tsv, session_id, role, ts FROM conversations
     WHERE tsv @@ (('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery)),
recent AS MATERIALIZED (
    SELECT id, tsv
      FROM (SELECT id, agent_identity, tsv, session_id, role, ts FROM conversations
             WHERE session_id = %(session_id)s
               AND agent_identity || '' = %(theme)s
               AND ts >= %(since)s::timestamptz
               AND ts < %(until)s::timestamptz
               AND %(recent)s::boolean
             ORDER BY ts DESC LIMIT 5000) AS newest
     WHERE (%(role)s::text IS NULL OR role = %(role)s)
       AND (tsv @@ %(match)s::tsquery) IS NOT TRUE),
hits AS MATERIALIZED (
    (SELECT id, tsv FROM matching
     WHERE agent_identity = %(theme)s
       AND session_id = %(session_id)s
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz
       AND ts < %(until)s::timestamptz
     LIMIT 10000)
    UNION ALL SELECT id, tsv FROM recent),
found AS MATERIALIZED (
    SELECT id, word FROM hits JOIN words ON hits.tsv @@ words.query),
weights AS (
    -- In millionths and whole, so that rows with the same words have the same sum whatever the order of adding.
    SELECT word, held,
           (1e6 * CASE WHEN held > 0 THEN 1 ELSE absent * least(1, 8 / sum(absent) FILTER (WHERE held = 0) OVER ()) END
                * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (greatest(held, 1) + 0.5)))::integer AS idf
      FROM (SELECT word, absent, coalesce(holding, count(found.id)) AS held
              FROM words LEFT JOIN found USING (word) GROUP BY word, holding, absent) AS counted)
SELECT id, sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage,
       ARRAY(SELECT word FROM weights WHERE held = 0) AS absent
  FROM found JOIN weights USING (word)
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

-- name: lexical_search_turns_all
-- exempt: the explicit scope 'all'.
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, absent, word
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[], %(absent)s::float8[])
           WITH ORDINALITY AS given(matcher, holding, absent, word)),
matching AS MATERIALIZED (
    SELECT id, agent_identity, tsv, role, ts FROM conversations
     WHERE tsv @@ %(match)s::tsquery),
recent AS MATERIALIZED (
    SELECT id, tsv
      FROM (SELECT id, agent_identity, tsv, role, ts FROM conversations
             WHERE %(recent)s::boolean
             ORDER BY id DESC LIMIT 1000) AS newest
     WHERE (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz
       AND ts < %(until)s::timestamptz
       AND (tsv @@ %(match)s::tsquery) IS NOT TRUE),
hits AS MATERIALIZED (
    (SELECT id, tsv FROM matching
     WHERE (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz
       AND ts < %(until)s::timestamptz
     LIMIT 10000)
    UNION ALL SELECT id, tsv FROM recent),
found AS MATERIALIZED (
    SELECT id, word FROM hits JOIN words ON hits.tsv @@ words.query),
weights AS (
    -- In millionths and whole, so that rows with the same words have the same sum whatever the order of adding.
    SELECT word, held,
           (1e6 * CASE WHEN held > 0 THEN 1 ELSE absent * least(1, 8 / sum(absent) FILTER (WHERE held = 0) OVER ()) END
                * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (greatest(held, 1) + 0.5)))::integer AS idf
      FROM (SELECT word, absent, coalesce(holding, count(found.id)) AS held
              FROM words LEFT JOIN found USING (word) GROUP BY word, holding, absent) AS counted)
SELECT id, sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage,
       ARRAY(SELECT word FROM weights WHERE held = 0) AS absent
  FROM found JOIN weights USING (word)
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

-- name: phrase_search_memories
-- The rows that hold a phrase of the question word for word, newest first. Proposed are those with all its words; tested
-- are at most 10,000 rows and 20 MB of text, the size of which is known without reading it.
WITH matching AS MATERIALIZED (
    SELECT id, agent_identity, content, target, metadata, updated_at FROM memory_entries
     WHERE tsv @@ CASE WHEN %(any_theme)s::boolean THEN %(match)s::tsquery
                       ELSE ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery END),
measured AS (
    SELECT id, content, sum(octet_length(content)) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
      FROM (SELECT id, content FROM matching
             WHERE (agent_identity = %(theme)s OR %(any_theme)s::boolean)
               AND (%(target)s::text IS NULL OR target = %(target)s)
               AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
               AND updated_at >= %(since)s::timestamptz
               AND updated_at < %(until)s::timestamptz
             LIMIT 10000) AS passed)
SELECT id FROM measured
 WHERE (bytes < 20000000 OR bytes = octet_length(content)) AND position(hermes_folded(%(phrase)s) IN hermes_folded(content)) > 0
 ORDER BY id DESC LIMIT %(limit)s;

-- name: phrase_search_turns
WITH matching AS MATERIALIZED (
    SELECT id, agent_identity, content, session_id, role, ts FROM conversations
     WHERE tsv @@ CASE WHEN %(any_theme)s::boolean THEN %(match)s::tsquery
                       ELSE ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery END),
measured AS (
    SELECT id, content, sum(octet_length(content)) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
      FROM (SELECT id, content FROM matching
             WHERE (agent_identity = %(theme)s OR %(any_theme)s::boolean)
               AND (%(role)s::text IS NULL OR role = %(role)s)
               AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
               AND ts >= %(since)s::timestamptz
               AND ts < %(until)s::timestamptz
             LIMIT 10000) AS passed)
SELECT id FROM measured
 WHERE (bytes < 20000000 OR bytes = octet_length(content)) AND position(hermes_folded(%(phrase)s) IN hermes_folded(content)) > 0
 ORDER BY id DESC LIMIT %(limit)s;

-- name: near_words_memories
-- Words of the theme that look like a word of the question, most alike first; needs pg_trgm. `match` narrows the rows to
-- those with a word of the same beginning, and is null where the theme is small enough to do without.
WITH rows AS MATERIALIZED (
    SELECT agent_identity, tsv FROM memory_entries
     WHERE tsv @@ CASE WHEN %(any_theme)s::boolean THEN %(match)s::tsquery
                       WHEN %(match)s::text IS NULL THEN ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery
                       ELSE ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery END),
vocabulary AS MATERIALIZED (
    SELECT DISTINCT lexeme FROM (
        SELECT held.lexeme FROM (SELECT tsv FROM rows WHERE agent_identity = %(theme)s OR %(any_theme)s::boolean LIMIT 2000) AS read
         CROSS JOIN LATERAL unnest(read.tsv) AS held
         LIMIT 100000) AS looked_at
     WHERE left(lexeme, 1) = ANY(%(initials)s::text[]))
SELECT word, lexeme
  FROM unnest(%(words)s::text[]) AS word
 CROSS JOIN LATERAL (
    SELECT lexeme FROM vocabulary
     WHERE similarity(lexeme, word) >= 0.3
     ORDER BY similarity(lexeme, word) DESC, lexeme LIMIT 10) AS near;

-- name: near_words_turns
WITH rows AS MATERIALIZED (
    SELECT agent_identity, tsv FROM conversations
     WHERE tsv @@ CASE WHEN %(any_theme)s::boolean THEN %(match)s::tsquery
                       WHEN %(match)s::text IS NULL THEN ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery
                       ELSE ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery END),
vocabulary AS MATERIALIZED (
    SELECT DISTINCT lexeme FROM (
        SELECT held.lexeme FROM (SELECT tsv FROM rows WHERE agent_identity = %(theme)s OR %(any_theme)s::boolean LIMIT 2000) AS read
         CROSS JOIN LATERAL unnest(read.tsv) AS held
         LIMIT 100000) AS looked_at
     WHERE left(lexeme, 1) = ANY(%(initials)s::text[]))
SELECT word, lexeme
  FROM unnest(%(words)s::text[]) AS word
 CROSS JOIN LATERAL (
    SELECT lexeme FROM vocabulary
     WHERE similarity(lexeme, word) >= 0.3
     ORDER BY similarity(lexeme, word) DESC, lexeme LIMIT 10) AS near;

-- name: fetch_memories
-- By key alone: a CASE keeps the indexes of the theme out, which a planner without statistics would read whole as well.
-- Of a long text the part that is nearest counts.
SELECT id, agent_identity AS theme, target AS kind, metadata ->> 'session_id' AS session_id, content,
       updated_at AS at, greatest(1 - (embedding <=> %(vector)s::vector), near.similarity) AS similarity,
       CASE WHEN near.similarity > 1 - (embedding <=> %(vector)s::vector) THEN near.first_char ELSE 0 END AS nearest_char
  FROM memory_entries
  LEFT JOIN LATERAL (SELECT first_char, 1 - (k.embedding <=> %(vector)s::vector) AS similarity
                       FROM memory_chunks AS k WHERE k.row_id = id
                      ORDER BY (k.embedding <=> %(vector)s::vector) + 0 LIMIT 1) AS near ON true
 WHERE id = ANY(%(ids)s) AND CASE WHEN agent_identity = %(theme)s THEN true ELSE %(any_theme)s END;

-- name: fetch_turns
SELECT id, agent_identity AS theme, role AS kind, session_id, content,
       ts AS at, greatest(1 - (embedding <=> %(vector)s::vector), near.similarity) AS similarity,
       CASE WHEN near.similarity > 1 - (embedding <=> %(vector)s::vector) THEN near.first_char ELSE 0 END AS nearest_char
  FROM conversations
  LEFT JOIN LATERAL (SELECT first_char, 1 - (k.embedding <=> %(vector)s::vector) AS similarity
                       FROM conversation_chunks AS k WHERE k.row_id = id
                      ORDER BY (k.embedding <=> %(vector)s::vector) + 0 LIMIT 1) AS near ON true
 WHERE id = ANY(%(ids)s) AND CASE WHEN agent_identity = %(theme)s THEN true ELSE %(any_theme)s END;

-- name: turns_before
-- The end of the session before this one, newest first. `|| ''`: see neighbours.
SELECT id, agent_identity AS theme, role AS kind, session_id, content, ts AS at, NULL::float8 AS similarity
  FROM conversations
 WHERE session_id = coalesce(%(parent)s::text,
                             (SELECT session_id FROM conversations
                               WHERE agent_identity = %(theme)s ORDER BY ts DESC LIMIT 1))
   AND agent_identity || '' = %(theme)s
   AND NOT EXISTS (SELECT FROM conversations WHERE session_id = %(session_id)s AND agent_identity || '' = %(theme)s)
 ORDER BY ts DESC, id DESC LIMIT %(limit)s;

-- name: count_all
-- exempt: totals for the operator, no stored text.
SELECT (SELECT count(*) FROM memory_entries) AS memories,
       (SELECT count(*) FROM conversations) AS turns,
       (SELECT count(*) FROM memory_entries WHERE embedding IS NULL) AS pending_memories,
       (SELECT count(*) FROM conversations WHERE embedding IS NULL) AS pending_turns;

-- name: list_themes
-- exempt: names, counts and times for the operator, no stored text.
WITH counted AS (
    SELECT agent_identity, count(*) FILTER (WHERE target = 'memory') AS memories, count(*) FILTER (WHERE target = 'user') AS facts,
           0 AS turns, count(*) FILTER (WHERE embedding IS NULL) AS pending,
           min(created_at) AS first_at, max(updated_at) AS last_at
      FROM memory_entries GROUP BY agent_identity
    UNION ALL
    SELECT agent_identity, 0, 0, count(*), count(*) FILTER (WHERE embedding IS NULL), min(ts), max(ts)
      FROM conversations GROUP BY agent_identity)
SELECT agent_identity AS theme, sum(memories)::bigint AS memories, sum(facts)::bigint AS user_facts, sum(turns)::bigint AS turns,
       sum(pending)::bigint AS pending, min(first_at) AS first_at, max(last_at) AS last_at
  FROM counted GROUP BY agent_identity ORDER BY agent_identity;

-- name: show_theme
SELECT (SELECT count(*) FROM memory_entries WHERE agent_identity = %(theme)s AND target = 'memory') AS memories,
       (SELECT count(*) FROM memory_entries WHERE agent_identity = %(theme)s AND target = 'user') AS user_facts,
       (SELECT count(*) FROM conversations WHERE agent_identity = %(theme)s) AS turns,
       (SELECT count(DISTINCT session_id) FROM conversations WHERE agent_identity = %(theme)s) AS sessions,
       (SELECT count(*) FROM memory_entries WHERE agent_identity = %(theme)s AND embedding IS NULL)
         + (SELECT count(*) FROM conversations WHERE agent_identity = %(theme)s AND embedding IS NULL) AS pending,
       (SELECT count(DISTINCT (f.target, f.digest))
          FROM hermes_mirror AS f
          JOIN memory_entries AS m ON m.agent_identity = f.agent_identity AND m.target = f.target AND m.digest = f.digest
         WHERE f.agent_identity = %(theme)s) AS in_files,
       (SELECT count(*) FROM hermes_tombstones WHERE agent_identity = %(theme)s) AS removed,
       least((SELECT min(created_at) FROM memory_entries WHERE agent_identity = %(theme)s),
             (SELECT min(ts) FROM conversations WHERE agent_identity = %(theme)s)) AS first_at,
       greatest((SELECT max(updated_at) FROM memory_entries WHERE agent_identity = %(theme)s),
                (SELECT max(ts) FROM conversations WHERE agent_identity = %(theme)s)) AS last_at;

-- name: theme_memory_ids
SELECT id FROM memory_entries WHERE agent_identity = %(theme)s ORDER BY id;

-- name: theme_turn_ids
SELECT id FROM conversations WHERE agent_identity = %(theme)s ORDER BY id;

-- name: count_shared_memories
SELECT count(*) AS count
  FROM memory_entries AS old JOIN memory_entries AS kept ON kept.target = old.target AND kept.digest = old.digest
 WHERE old.agent_identity = %(theme)s AND kept.agent_identity = %(into)s;

-- name: merge_shared_memories
-- What both themes hold stays once, as old as the older and as fresh as the fresher of the two. The vector of a long text is
-- no use without those of its other parts.
WITH shared AS (
    SELECT old.id AS old_id, kept.id AS kept_id, old.created_at, old.updated_at,
           CASE WHEN NOT EXISTS (SELECT FROM memory_chunks AS k WHERE k.row_id = old.id) THEN old.embedding END AS embedding
      FROM memory_entries AS old JOIN memory_entries AS kept ON kept.target = old.target AND kept.digest = old.digest
     WHERE old.agent_identity = %(theme)s AND kept.agent_identity = %(into)s),
merged AS (
    UPDATE memory_entries AS m
       SET created_at = least(m.created_at, shared.created_at), updated_at = greatest(m.updated_at, shared.updated_at),
           embedding = coalesce(m.embedding, shared.embedding),
           sig = coalesce(m.sig, binary_quantize(shared.embedding))
      FROM shared WHERE m.agent_identity = %(into)s AND m.id = shared.kept_id)
DELETE FROM memory_entries AS m USING shared WHERE m.agent_identity = %(theme)s AND m.id = shared.old_id;

-- name: move_memories
UPDATE memory_entries SET agent_identity = %(into)s WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s);

-- name: move_turns
UPDATE conversations SET agent_identity = %(into)s WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s);

-- name: move_operations
WITH moved AS (DELETE FROM hermes_operations WHERE agent_identity = %(theme)s RETURNING op_id, applied_at)
INSERT INTO hermes_operations (agent_identity, op_id, applied_at) SELECT %(into)s, op_id, applied_at FROM moved
ON CONFLICT DO NOTHING;

-- name: move_tombstones
WITH moved AS (DELETE FROM hermes_tombstones WHERE agent_identity = %(theme)s RETURNING target, digest, removed_at)
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at)
SELECT %(into)s, target, digest, removed_at FROM moved
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET removed_at = greatest(hermes_tombstones.removed_at, excluded.removed_at);

-- name: move_mirrored
WITH moved AS (DELETE FROM hermes_mirror WHERE agent_identity = %(theme)s RETURNING origin, target, digest, announced, noted_at)
INSERT INTO hermes_mirror (agent_identity, origin, target, digest, announced, noted_at)
SELECT %(into)s, origin, target, digest, announced, noted_at FROM moved
ON CONFLICT (agent_identity, origin, target, digest) DO UPDATE
   SET announced = hermes_mirror.announced OR excluded.announced,
       noted_at = greatest(hermes_mirror.noted_at, excluded.noted_at);

-- name: clear_live_tombstones
-- What one theme had removed and the other one holds, is held.
DELETE FROM hermes_tombstones AS t USING memory_entries AS m
 WHERE t.agent_identity = %(theme)s AND m.agent_identity = t.agent_identity AND m.target = t.target AND m.digest = t.digest;

-- name: delete_turns
DELETE FROM conversations WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s);

-- name: export_memories
SELECT id, agent_identity AS theme, target, content, created_at, updated_at, metadata ->> 'session_id' AS session_id, metadata,
       CASE WHEN %(vectors)s::boolean THEN embedding::real[] END AS embedding
  FROM memory_entries WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s) ORDER BY id;

-- name: export_turns
SELECT id, agent_identity AS theme, role, content, ts, session_id, metadata,
       CASE WHEN %(vectors)s::boolean THEN embedding::real[] END AS embedding
  FROM conversations WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s) ORDER BY id;

-- name: record_maintenance
-- exempt: what an operator did, no stored text.
INSERT INTO hermes_maintenance (os_user, host, verb, arguments, counts)
VALUES (%(os_user)s, %(host)s, %(verb)s, %(arguments)s, %(counts)s);

-- name: read_maintenance
-- exempt: what operators did, no stored text.
SELECT id, done_at, db_role, os_user, host, verb, arguments, counts FROM hermes_maintenance ORDER BY id DESC LIMIT %(limit)s;

-- name: themes_of_home
-- exempt: names for the operator, no stored text. Those that this home's memory files were written under, and those
-- whose last turn came from its profile; the themes are found one by one along an index.
WITH RECURSIVE themes(theme) AS (
    (SELECT agent_identity FROM conversations ORDER BY agent_identity LIMIT 1)
    UNION ALL
    SELECT (SELECT agent_identity FROM conversations WHERE agent_identity > themes.theme ORDER BY agent_identity LIMIT 1)
      FROM themes WHERE theme IS NOT NULL)
SELECT theme FROM themes
 WHERE theme IS NOT NULL
   AND (SELECT metadata ->> 'profile' FROM conversations
         WHERE agent_identity = theme ORDER BY ts DESC LIMIT 1) = %(profile)s
UNION
SELECT agent_identity FROM hermes_mirror WHERE origin = %(origin)s AND announced
ORDER BY 1;
