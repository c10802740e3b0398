-- Every statement the product sends at run time, by name. Each one that reads or writes stored text is filtered by
-- theme (agent_identity), or says after "exempt:" why it is not.

-- name: set_timeouts
-- exempt: touches no table. To compile a plan takes longer than any statement here takes to run.
SELECT set_config('statement_timeout', %(statement_ms)s, true) AS statement,
       set_config('lock_timeout', %(lock_ms)s, true) AS lock,
       set_config('idle_in_transaction_session_timeout', %(idle_ms)s, true) AS idle,
       set_config('jit', 'off', true) AS jit;

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
-- The turns right before and after each of some turns, in the same session of the same theme. `|| ''` keeps the indexes
-- of the theme out: one of them, read whole for every turn, is what the planner likes to add to the session's.
SELECT c.id,
       (SELECT p.id FROM conversations AS p
         WHERE p.session_id = c.session_id AND p.agent_identity || '' = c.agent_identity AND (p.ts, p.id) < (c.ts, c.id)
         ORDER BY p.ts DESC, p.id DESC LIMIT 1) AS before,
       (SELECT n.id FROM conversations AS n
         WHERE n.session_id = c.session_id AND n.agent_identity || '' = c.agent_identity AND (n.ts, n.id) > (c.ts, c.id)
         ORDER BY n.ts, n.id LIMIT 1) AS after
  FROM conversations AS c
 WHERE c.id = ANY(%(ids)s) AND (c.agent_identity = %(theme)s OR %(any_theme)s);

-- name: walk_indexes
-- exempt: touches no table. "The newest 1,000 rows" must walk an index in order: where the planner takes a theme for small
-- (a generic plan, no ANALYZE yet), it would else collect the whole theme and sort it.
SELECT set_config('enable_sort', 'off', true) AS sort;

-- name: query_terms_memories
-- The words of a question as the index knows them, and in how many rows of a sample each stands. `rows` ends at 5,001:
-- up to 5,000 rows are searched exactly and need no sample.
WITH words AS MATERIALIZED (
    SELECT matcher, matcher::tsquery AS query
      FROM (SELECT term, '''' || replace(replace(term, E'\\', E'\\\\'), '''', '''''') || '''' AS matcher
              FROM unnest(tsvector_to_array(hermes_lexemes(%(text)s))) AS term
             WHERE length(term) < 200 ORDER BY length(term) DESC, term LIMIT %(limit)s) AS longest),
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
    SELECT matcher, matcher::tsquery AS query
      FROM (SELECT term, '''' || replace(replace(term, E'\\', E'\\\\'), '''', '''''') || '''' AS matcher
              FROM unnest(tsvector_to_array(hermes_lexemes(%(text)s))) AS term
             WHERE length(term) < 200 ORDER BY length(term) DESC, term LIMIT %(limit)s) AS longest),
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
    SELECT matcher, matcher::tsquery AS query
      FROM (SELECT term, '''' || replace(replace(term, E'\\', E'\\\\'), '''', '''''') || '''' AS matcher
              FROM unnest(tsvector_to_array(hermes_lexemes(%(text)s))) AS term
             WHERE length(term) < 200 ORDER BY length(term) DESC, term LIMIT %(limit)s) AS longest),
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
    SELECT matcher, matcher::tsquery AS query
      FROM (SELECT term, '''' || replace(replace(term, E'\\', E'\\\\'), '''', '''''') || '''' AS matcher
              FROM unnest(tsvector_to_array(hermes_lexemes(%(text)s))) AS term
             WHERE length(term) < 200 ORDER BY length(term) DESC, term LIMIT %(limit)s) AS longest),
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
-- by the estimate in `holding` or else by the rows found; coverage is the share of the question's weight that a row
-- holds, 0 to 1. Nothing but `@@` stands in `matching`, so that no other index can be preferred, and no LIMIT, which
-- would make the planner prefer to read the table; it is read only as far as the LIMIT of `hits` asks.
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, word
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[]) WITH ORDINALITY AS given(matcher, holding, word)),
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
    SELECT word, (1e6 * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (held + 0.5)))::integer AS idf
      FROM (SELECT word, coalesce(holding, count(found.id)) AS held
              FROM words LEFT JOIN found USING (word) GROUP BY word, holding) AS counted)
SELECT id, sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage
  FROM found JOIN weights USING (word)
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

-- name: lexical_search_memories_all
-- exempt: the explicit scope 'all'.
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, word
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[]) WITH ORDINALITY AS given(matcher, holding, word)),
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
    SELECT word, (1e6 * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (held + 0.5)))::integer AS idf
      FROM (SELECT word, coalesce(holding, count(found.id)) AS held
              FROM words LEFT JOIN found USING (word) GROUP BY word, holding) AS counted)
SELECT id, sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage
  FROM found JOIN weights USING (word)
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

-- name: lexical_search_turns
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, word
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[]) WITH ORDINALITY AS given(matcher, holding, word)),
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
    SELECT word, (1e6 * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (held + 0.5)))::integer AS idf
      FROM (SELECT word, coalesce(holding, count(found.id)) AS held
              FROM words LEFT JOIN found USING (word) GROUP BY word, holding) AS counted)
SELECT id, sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage
  FROM found JOIN weights USING (word)
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

-- name: lexical_search_turns_session
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, word
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[]) WITH ORDINALITY AS given(matcher, holding, word)),
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
    SELECT word, (1e6 * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (held + 0.5)))::integer AS idf
      FROM (SELECT word, coalesce(holding, count(found.id)) AS held
              FROM words LEFT JOIN found USING (word) GROUP BY word, holding) AS counted)
SELECT id, sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage
  FROM found JOIN weights USING (word)
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

-- name: lexical_search_turns_all
-- exempt: the explicit scope 'all'.
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, word
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[]) WITH ORDINALITY AS given(matcher, holding, word)),
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
    SELECT word, (1e6 * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (held + 0.5)))::integer AS idf
      FROM (SELECT word, coalesce(holding, count(found.id)) AS held
              FROM words LEFT JOIN found USING (word) GROUP BY word, holding) AS counted)
SELECT id, sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage
  FROM found JOIN weights USING (word)
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

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
