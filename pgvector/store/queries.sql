-- Every statement the product sends at run time, by name. Each one that reads or writes stored text is filtered by
-- theme (agent_identity), or says after "exempt:" why it is not.

-- name: set_timeouts
-- exempt: touches no table.
SELECT set_config('statement_timeout', %(statement_ms)s, true) AS statement,
       set_config('lock_timeout', %(lock_ms)s, true) AS lock,
       set_config('idle_in_transaction_session_timeout', %(idle_ms)s, true) AS idle;

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
COPY conversations (session_id, agent_identity, role, content, ts, embedding, metadata) FROM STDIN (FORMAT binary);

-- name: forget_session
DELETE FROM conversations WHERE agent_identity = %(theme)s AND session_id = %(session_id)s;

-- name: upsert_memory
INSERT INTO memory_entries (agent_identity, target, content, embedding, created_at, updated_at, metadata)
VALUES (%(theme)s, %(target)s, %(content)s, %(embedding)s, %(at)s, %(at)s, %(metadata)s)
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET updated_at = greatest(memory_entries.updated_at, excluded.updated_at),
       embedding = coalesce(memory_entries.embedding, excluded.embedding);

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

-- name: replace_memory
UPDATE memory_entries
   SET content = %(content)s, embedding = %(embedding)s, embed_after = NULL, updated_at = %(at)s, metadata = %(metadata)s
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

-- name: record_model
-- exempt: the name of the embedding model, no stored text.
UPDATE hermes_embedding SET model = %(model)s, recorded_at = now() WHERE model IS NULL;

-- name: read_model
-- exempt: the name of the embedding model, no stored text.
SELECT model FROM hermes_embedding;

-- name: claim_pending_memories
-- exempt: embeds rows of every theme; the text goes to the embedding endpoint only and comes back as its own row's vector.
UPDATE memory_entries AS m SET embed_after = now() + make_interval(secs => %(lease_s)s)
 WHERE m.id IN (SELECT id FROM memory_entries
                 WHERE embedding IS NULL AND (embed_after IS NULL OR embed_after < now())
                 ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
RETURNING m.id, m.content;

-- name: claim_pending_turns
-- exempt: as claim_pending_memories.
UPDATE conversations AS c SET embed_after = now() + make_interval(secs => %(lease_s)s)
 WHERE c.id IN (SELECT id FROM conversations
                 WHERE embedding IS NULL AND (embed_after IS NULL OR embed_after < now())
                 ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
RETURNING c.id, c.content;

-- name: postpone_memories
-- exempt: as claim_pending_memories.
UPDATE memory_entries SET embed_after = now() + make_interval(secs => %(pause_s)s)
 WHERE id = ANY(%(ids)s) AND embedding IS NULL;

-- name: postpone_turns
-- exempt: as claim_pending_memories.
UPDATE conversations SET embed_after = now() + make_interval(secs => %(pause_s)s)
 WHERE id = ANY(%(ids)s) AND embedding IS NULL;

-- name: fill_memory
-- exempt: as claim_pending_memories. The digest makes sure that the text did not change meanwhile.
UPDATE memory_entries SET embedding = %(embedding)s, embed_after = NULL
 WHERE id = %(id)s AND embedding IS NULL AND digest = hermes_digest(%(content)s);

-- name: fill_turn
-- exempt: as claim_pending_memories.
UPDATE conversations SET embedding = %(embedding)s, embed_after = NULL WHERE id = %(id)s AND embedding IS NULL;

-- name: vector_search_memories
-- `+ 0` keeps every other index out: the signatures of one theme come from its covering index, then the nearest are
-- reranked exactly. Pending rows are left out by `sig IS NOT NULL`, which that index holds, never by the embedding,
-- which it does not.
WITH candidates AS MATERIALIZED (
    SELECT id FROM memory_entries
     WHERE agent_identity = %(theme)s AND sig IS NOT NULL
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT t.id, 1 - (t.embedding <=> %(vector)s) AS similarity
  FROM candidates JOIN memory_entries AS t USING (id)
 ORDER BY (t.embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_memories_filtered
-- The filter stands before the cut, so that a rare target or session is not cut away.
WITH candidates AS MATERIALIZED (
    SELECT id FROM memory_entries
     WHERE agent_identity = %(theme)s AND sig IS NOT NULL
       AND (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT t.id, 1 - (t.embedding <=> %(vector)s) AS similarity
  FROM candidates JOIN memory_entries AS t USING (id)
 ORDER BY (t.embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_memories_all
-- exempt: the explicit scope 'all'.
WITH candidates AS MATERIALIZED (
    SELECT id FROM memory_entries
     WHERE sig IS NOT NULL
       AND (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT t.id, 1 - (t.embedding <=> %(vector)s) AS similarity
  FROM candidates JOIN memory_entries AS t USING (id)
 ORDER BY (t.embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_turns
WITH candidates AS MATERIALIZED (
    SELECT id FROM conversations
     WHERE agent_identity = %(theme)s AND sig IS NOT NULL
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT t.id, 1 - (t.embedding <=> %(vector)s) AS similarity
  FROM candidates JOIN conversations AS t USING (id)
 ORDER BY (t.embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_turns_filtered
WITH candidates AS MATERIALIZED (
    SELECT id FROM conversations
     WHERE agent_identity = %(theme)s AND sig IS NOT NULL
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT t.id, 1 - (t.embedding <=> %(vector)s) AS similarity
  FROM candidates JOIN conversations AS t USING (id)
 ORDER BY (t.embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_turns_session
WITH candidates AS MATERIALIZED (
    SELECT id FROM conversations
     WHERE agent_identity = %(theme)s AND session_id = %(session_id)s AND sig IS NOT NULL
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT t.id, 1 - (t.embedding <=> %(vector)s) AS similarity
  FROM candidates JOIN conversations AS t USING (id)
 ORDER BY (t.embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_turns_all
-- exempt: the explicit scope 'all'.
WITH candidates AS MATERIALIZED (
    SELECT id FROM conversations
     WHERE sig IS NOT NULL
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
     ORDER BY (sig <~> binary_quantize(%(vector)s)) + 0 LIMIT %(depth)s)
SELECT t.id, 1 - (t.embedding <=> %(vector)s) AS similarity
  FROM candidates JOIN conversations AS t USING (id)
 ORDER BY (t.embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: neighbours
-- The turns right before and after each of some turns, in the same session of the same theme.
SELECT c.id,
       (SELECT p.id FROM conversations AS p
         WHERE p.session_id = c.session_id AND p.agent_identity = c.agent_identity AND (p.ts, p.id) < (c.ts, c.id)
         ORDER BY p.ts DESC, p.id DESC LIMIT 1) AS before,
       (SELECT n.id FROM conversations AS n
         WHERE n.session_id = c.session_id AND n.agent_identity = c.agent_identity AND (n.ts, n.id) > (c.ts, c.id)
         ORDER BY n.ts, n.id LIMIT 1) AS after
  FROM conversations AS c
 WHERE c.id = ANY(%(ids)s) AND (c.agent_identity = %(theme)s OR %(any_theme)s);

-- name: query_terms
-- exempt: reads no table. The words of a question as the index knows them.
SELECT term FROM unnest(tsvector_to_array(hermes_lexemes(%(text)s))) AS term
 WHERE length(term) < 200 ORDER BY length(term) DESC, term LIMIT %(limit)s;

-- name: lexical_search_memories
-- `match` ORs the words behind the theme's lexeme. Each word weighs by how rare it is in the theme (BM25's idf);
-- coverage is the share of the question's weight that a row holds, 0 to 1.
WITH terms AS (
    SELECT * FROM unnest(%(terms)s::text[]) AS matcher),
hits AS MATERIALIZED (
    SELECT id, tsv FROM memory_entries
     WHERE agent_identity = %(theme)s
       AND (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz
       AND tsv @@ (('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery)),
found AS MATERIALIZED (
    SELECT hits.id, terms.matcher FROM hits JOIN terms ON hits.tsv @@ terms.matcher::tsquery),
size AS (
    -- At least 50: in a nearly empty theme, words that no row holds would outweigh all that match.
    SELECT greatest(count(*), 50) AS n FROM memory_entries WHERE agent_identity = %(theme)s),
weights AS (
    SELECT terms.matcher, ln(1 + (size.n - count(found.id) + 0.5) / (count(found.id) + 0.5)) AS idf
      FROM terms CROSS JOIN size LEFT JOIN found USING (matcher)
     GROUP BY terms.matcher, size.n)
SELECT found.id, (sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights))::float8 AS coverage
  FROM found JOIN weights USING (matcher)
 GROUP BY found.id ORDER BY coverage DESC, found.id DESC LIMIT %(limit)s;

-- name: lexical_search_memories_all
-- exempt: the explicit scope 'all'.
WITH terms AS (
    SELECT * FROM unnest(%(terms)s::text[]) AS matcher),
hits AS MATERIALIZED (
    SELECT id, tsv FROM memory_entries
     WHERE (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz
       AND tsv @@ %(match)s::tsquery),
found AS MATERIALIZED (
    SELECT hits.id, terms.matcher FROM hits JOIN terms ON hits.tsv @@ terms.matcher::tsquery),
size AS (
    -- At least 50: in a nearly empty theme, words that no row holds would outweigh all that match.
    SELECT greatest(count(*), 50) AS n FROM memory_entries),
weights AS (
    SELECT terms.matcher, ln(1 + (size.n - count(found.id) + 0.5) / (count(found.id) + 0.5)) AS idf
      FROM terms CROSS JOIN size LEFT JOIN found USING (matcher)
     GROUP BY terms.matcher, size.n)
SELECT found.id, (sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights))::float8 AS coverage
  FROM found JOIN weights USING (matcher)
 GROUP BY found.id ORDER BY coverage DESC, found.id DESC LIMIT %(limit)s;

-- name: lexical_search_turns
WITH terms AS (
    SELECT * FROM unnest(%(terms)s::text[]) AS matcher),
hits AS MATERIALIZED (
    SELECT id, tsv FROM conversations
     WHERE agent_identity = %(theme)s
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
       AND tsv @@ (('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery)),
found AS MATERIALIZED (
    SELECT hits.id, terms.matcher FROM hits JOIN terms ON hits.tsv @@ terms.matcher::tsquery),
size AS (
    -- At least 50: in a nearly empty theme, words that no row holds would outweigh all that match.
    SELECT greatest(count(*), 50) AS n FROM conversations WHERE agent_identity = %(theme)s),
weights AS (
    SELECT terms.matcher, ln(1 + (size.n - count(found.id) + 0.5) / (count(found.id) + 0.5)) AS idf
      FROM terms CROSS JOIN size LEFT JOIN found USING (matcher)
     GROUP BY terms.matcher, size.n)
SELECT found.id, (sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights))::float8 AS coverage
  FROM found JOIN weights USING (matcher)
 GROUP BY found.id ORDER BY coverage DESC, found.id DESC LIMIT %(limit)s;

-- name: lexical_search_turns_session
WITH terms AS (
    SELECT * FROM unnest(%(terms)s::text[]) AS matcher),
hits AS MATERIALIZED (
    SELECT id, tsv FROM conversations
     WHERE agent_identity = %(theme)s AND session_id = %(session_id)s
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
       AND tsv @@ (('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery)),
found AS MATERIALIZED (
    SELECT hits.id, terms.matcher FROM hits JOIN terms ON hits.tsv @@ terms.matcher::tsquery),
size AS (
    -- At least 50: in a nearly empty theme, words that no row holds would outweigh all that match.
    SELECT greatest(count(*), 50) AS n FROM conversations WHERE agent_identity = %(theme)s),
weights AS (
    SELECT terms.matcher, ln(1 + (size.n - count(found.id) + 0.5) / (count(found.id) + 0.5)) AS idf
      FROM terms CROSS JOIN size LEFT JOIN found USING (matcher)
     GROUP BY terms.matcher, size.n)
SELECT found.id, (sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights))::float8 AS coverage
  FROM found JOIN weights USING (matcher)
 GROUP BY found.id ORDER BY coverage DESC, found.id DESC LIMIT %(limit)s;

-- name: lexical_search_turns_all
-- exempt: the explicit scope 'all'.
WITH terms AS (
    SELECT * FROM unnest(%(terms)s::text[]) AS matcher),
hits AS MATERIALIZED (
    SELECT id, tsv FROM conversations
     WHERE (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
       AND tsv @@ %(match)s::tsquery),
found AS MATERIALIZED (
    SELECT hits.id, terms.matcher FROM hits JOIN terms ON hits.tsv @@ terms.matcher::tsquery),
size AS (
    -- At least 50: in a nearly empty theme, words that no row holds would outweigh all that match.
    SELECT greatest(count(*), 50) AS n FROM conversations),
weights AS (
    SELECT terms.matcher, ln(1 + (size.n - count(found.id) + 0.5) / (count(found.id) + 0.5)) AS idf
      FROM terms CROSS JOIN size LEFT JOIN found USING (matcher)
     GROUP BY terms.matcher, size.n)
SELECT found.id, (sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights))::float8 AS coverage
  FROM found JOIN weights USING (matcher)
 GROUP BY found.id ORDER BY coverage DESC, found.id DESC LIMIT %(limit)s;

-- name: fetch_memories
SELECT id, agent_identity AS theme, target AS kind, metadata ->> 'session_id' AS session_id, content,
       updated_at AS at, 1 - (embedding <=> %(vector)s::vector) AS similarity
  FROM memory_entries
 WHERE id = ANY(%(ids)s) AND (agent_identity = %(theme)s OR %(any_theme)s);

-- name: fetch_turns
SELECT id, agent_identity AS theme, role AS kind, session_id, content,
       ts AS at, 1 - (embedding <=> %(vector)s::vector) AS similarity
  FROM conversations
 WHERE id = ANY(%(ids)s) AND (agent_identity = %(theme)s OR %(any_theme)s);

-- name: count_all
-- exempt: totals for the operator, no stored text.
SELECT (SELECT count(*) FROM memory_entries) AS memories,
       (SELECT count(*) FROM conversations) AS turns,
       (SELECT count(*) FROM memory_entries WHERE embedding IS NULL) AS pending_memories,
       (SELECT count(*) FROM conversations WHERE embedding IS NULL) AS pending_turns;
