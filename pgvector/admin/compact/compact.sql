-- The statements of `compact`. They change turns only, never memories.

-- name: compact_share
-- Of a theme: the number of turns, of those said before a time, and of the vectors of these that can be dropped, with the bytes
-- they take. Vectors of turns that are deleted as a whole (`gone`) do not count.
WITH old AS MATERIALIZED (
    SELECT id, pg_column_size(embedding) AS bytes FROM conversations AS c
     WHERE agent_identity = %(theme)s AND ts < %(before)s AND embedding IS NOT NULL AND sig IS NOT NULL
       AND NOT EXISTS (SELECT FROM unnest(%(gone)s::bigint[]) AS gone(id) WHERE gone.id = c.id))
SELECT (SELECT count(*) FROM conversations WHERE agent_identity = %(theme)s) AS turns,
       (SELECT count(*) FROM conversations WHERE agent_identity = %(theme)s AND ts < %(before)s) AS old_turns,
       (SELECT count(*) FROM old) AS vectors,
       (SELECT coalesce(sum(bytes), 0) FROM old)::bigint
         + (SELECT coalesce(sum(pg_column_size(k.embedding)), 0) FROM conversation_chunks AS k JOIN old ON old.id = k.row_id
             WHERE k.agent_identity = %(theme)s)::bigint AS vector_bytes;

-- name: compact_sizes
-- exempt: sizes for the operator, no stored text. How large tables and indexes are, and how many vectors a graph of
-- whole vectors holds; one of signatures keeps its rows.
SELECT pg_table_size('conversations') + pg_table_size('conversation_chunks') AS table_bytes,
       pg_indexes_size('conversations') + pg_indexes_size('conversation_chunks') AS index_bytes,
       coalesce(pg_relation_size(to_regclass('conversations_embedding_full_idx')), 0) AS graph_bytes,
       greatest(0, (SELECT reltuples FROM pg_class WHERE oid = to_regclass('conversations_embedding_full_idx'))) AS graph_rows,
       greatest(0, (SELECT reltuples FROM pg_class WHERE oid = to_regclass('conversations'))) AS rows;

-- name: compact_candidates
-- Old turns of one role with the same words in the same order, newest first; case, punctuation at the ends of words and filler
-- words do not count. A turn that differs by a question mark or a number is no repetition, nor is one from another place,
-- because those who may read the one may not be allowed to read the other.
SELECT array_agg(id ORDER BY ts DESC, id DESC) AS ids
  FROM (SELECT id, ts, role, metadata ->> 'platform' AS platform, metadata ->> 'profile' AS profile,
               metadata ->> 'chat_type' AS chat_type,
               hermes_digest(CASE WHEN length(content) > 20000 THEN content ELSE coalesce(
                   (SELECT string_agg(bare, ' ' ORDER BY place)
                      FROM regexp_split_to_table(lower(content), '\s+') WITH ORDINALITY AS split(word, place)
                     CROSS JOIN LATERAL btrim(word, %(signs)s) AS bare
                     WHERE bare <> '' AND bare <> ALL(%(fillers)s::text[])), content) END) AS said
          FROM conversations
         WHERE agent_identity = %(theme)s AND ts < %(before)s) AS each
 GROUP BY role, said, platform, profile, chat_type HAVING count(*) > 1 ORDER BY 1;

-- name: compact_same
-- Of pairs of turns those that say the same: with equal texts but for case and blanks, or with vectors this similar. If a
-- vector is gone, signatures decide, which take more turns for different than are. With the bytes of a turn and its parts.
SELECT pair.id, pg_column_size(o.*) + (SELECT coalesce(sum(pg_column_size(part.*)), 0) FROM conversation_chunks AS part
                                        WHERE part.agent_identity = %(theme)s AND part.row_id = o.id)::bigint AS bytes
  FROM unnest(%(kept)s::bigint[], %(ids)s::bigint[]) AS pair(kept_id, id)
  JOIN conversations AS k ON k.id = pair.kept_id
  JOIN conversations AS o ON o.id = pair.id
 WHERE k.agent_identity = %(theme)s AND o.agent_identity = %(theme)s AND k.role = o.role
   AND (lower(btrim(regexp_replace(k.content, '\s+', ' ', 'g'))) = lower(btrim(regexp_replace(o.content, '\s+', ' ', 'g')))
        OR coalesce(1 - (k.embedding <=> o.embedding), cos(pi() * (k.sig <~> o.sig) / length(k.sig))) >= %(similar)s);

-- name: compact_examples
SELECT id, ts AS at, role, left(content, %(chars)s) AS content FROM conversations
 WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s);

-- name: lock_turns
-- Locks the turns that still exist, in an order in which two processes never deadlock.
SELECT id FROM conversations WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s) ORDER BY id FOR UPDATE;

-- name: collapse_turns
-- Deletes the older turns; the one that stays records how often it was said, and since when.
WITH gone AS (
    DELETE FROM conversations WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s)
    RETURNING id, ts, CASE WHEN jsonb_typeof(metadata #> '{repeated,count}') = 'number' THEN metadata -> 'repeated' END AS before),
told AS (
    SELECT k.id, jsonb_build_object('repeated', jsonb_build_object(
               'count', sum(coalesce((before ->> 'count')::numeric, 1))::integer + coalesce((own ->> 'count')::numeric::integer, 1),
               'since', least(min(coalesce((before ->> 'since')::timestamptz, ts)), (own ->> 'since')::timestamptz))) AS repeated
      FROM gone JOIN unnest(%(kept)s::bigint[], %(ids)s::bigint[]) AS pair(kept_id, gone_id) ON pair.gone_id = gone.id
      JOIN (SELECT id, CASE WHEN jsonb_typeof(metadata #> '{repeated,count}') = 'number' THEN metadata -> 'repeated' END AS own
              FROM conversations WHERE agent_identity = %(theme)s) AS k ON k.id = pair.kept_id
     GROUP BY k.id, own)
UPDATE conversations AS c SET metadata = c.metadata || told.repeated
  FROM told WHERE c.agent_identity = %(theme)s AND c.id = told.id;

-- name: keep_signatures
-- exempt: touches no table. Until the transaction ends, setting a vector to NULL keeps its signature.
SET LOCAL hermes_pgvector.keep_sig = on;

-- name: cooling_ids
SELECT id FROM conversations
 WHERE agent_identity = %(theme)s AND ts < %(before)s AND embedding IS NOT NULL AND sig IS NOT NULL ORDER BY ts, id;

-- name: cool_turns
-- After keep_signatures.
WITH cooled AS (
    UPDATE conversations SET embedding = NULL, embed_after = NULL
     WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s) AND embedding IS NOT NULL AND sig IS NOT NULL
    RETURNING id),
parts AS (
    UPDATE conversation_chunks SET embedding = NULL
     WHERE agent_identity = %(theme)s AND row_id = ANY(%(ids)s) AND embedding IS NOT NULL)
SELECT count(*) AS count FROM cooled;

-- name: calibrate_signatures
-- exempt: two numbers of the embedding model, no stored text.
UPDATE hermes_embedding SET sig_slope = %(slope)s, sig_offset = %(offset)s;

-- name: signature_scale
-- exempt: as calibrate_signatures.
SELECT sig_slope AS slope, sig_offset AS "offset" FROM hermes_embedding;

-- name: sample_questions
-- Turns of a theme in an arbitrary order that is the same each time.
SELECT id, content, embedding FROM conversations
 WHERE agent_identity = %(theme)s AND embedding IS NOT NULL
 ORDER BY hermes_digest(id::text) LIMIT %(limit)s;

-- name: nearest_exactly
-- Compares all vectors of the theme; where one is gone, its code.
SELECT id FROM conversations AS t
 WHERE agent_identity = %(theme)s AND sig IS NOT NULL
 ORDER BY coalesce(embedding <=> %(vector)s, 1 - %(offset)s::float8 - %(slope)s::float8 * told_nearness(t)) + 0
 LIMIT %(limit)s;

-- name: nearest_by_signature
-- The estimated and the real similarity of the turns that are nearest by the estimate, to learn how the two relate.
SELECT told, 1 - (embedding <=> %(vector)s) AS real
  FROM (SELECT told_nearness(t) AS told, embedding FROM conversations AS t
         WHERE agent_identity = %(theme)s AND embedding IS NOT NULL AND id <> %(id)s
         ORDER BY told DESC LIMIT %(limit)s) AS near;

-- name: nearest_when_cold
-- What vector_search_turns would find if the vectors of old turns were gone.
WITH near_candidates(conversations; id; agent_identity = %(theme)s; %(depth)s)
SELECT id, 1 - distance AS similarity
  FROM candidates CROSS JOIN LATERAL (
       SELECT coalesce(CASE WHEN ts >= %(before)s THEN embedding <=> %(vector)s END,
                       greatest(0, 1 - %(offset)s::float8 - %(slope)s::float8
                                      * told_nearness(t))) AS distance
         FROM conversations AS t WHERE same_row(t) OFFSET 0) AS t
 ORDER BY distance + 0 LIMIT %(limit)s;

-- name: old_sessions
-- Sessions of a theme that ended before a time, with enough turns to be worth a summary, oldest first. Summaries do not count
-- as turns. A session that went on in a chat counts as two: not everybody who may read the rest may read what was said there.
SELECT session_id, count(*) AS turns, min(ts) AS first_at, max(ts) AS last_at, sum(length(content))::bigint AS chars,
       platform, profile, chat_type
  FROM (SELECT session_id, ts, content, max(ts) OVER (PARTITION BY session_id) AS ended, metadata ->> 'platform' AS platform,
               metadata ->> 'profile' AS profile, metadata ->> 'chat_type' AS chat_type
          FROM conversations WHERE agent_identity = %(theme)s AND NOT metadata ? 'summary_of') AS said
 WHERE ended < %(before)s
 GROUP BY session_id, platform, profile, chat_type HAVING count(*) >= %(fewest)s
 ORDER BY max(ts), session_id, platform, profile, chat_type;

-- name: session_turns
SELECT id, ts AS at, role, content, metadata FROM conversations
 WHERE agent_identity = %(theme)s AND session_id = %(session_id)s AND NOT metadata ? 'summary_of'
   AND (metadata ->> 'platform', metadata ->> 'profile', metadata ->> 'chat_type')
       IS NOT DISTINCT FROM (%(platform)s::text, %(profile)s::text, %(chat_type)s::text)
 ORDER BY ts, id;

-- name: lock_session
-- As session_turns.
SELECT id, hermes_digest(content) AS digest FROM conversations
 WHERE agent_identity = %(theme)s AND session_id = %(session_id)s AND NOT metadata ? 'summary_of'
   AND (metadata ->> 'platform', metadata ->> 'profile', metadata ->> 'chat_type')
       IS NOT DISTINCT FROM (%(platform)s::text, %(profile)s::text, %(chat_type)s::text)
 ORDER BY id FOR UPDATE;

-- name: store_summary
INSERT INTO conversations (agent_identity, session_id, role, content, ts, metadata, text_language)
VALUES (%(theme)s, %(session_id)s, 'system', %(content)s, %(at)s, %(metadata)s, %(language)s);
