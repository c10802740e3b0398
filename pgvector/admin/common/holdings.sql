-- Figures that an operator watches repeatedly: no statement here reads a large table in full.

-- name: count_some
-- exempt: totals for the operator, no stored text. Counts up to `most`; if that is NULL, to the end.
SELECT (SELECT count(*) FROM (SELECT 1 FROM memory_entries LIMIT %(most)s) AS few) AS memories,
       (SELECT count(*) FROM (SELECT 1 FROM conversations LIMIT %(most)s) AS few) AS turns,
       (SELECT count(*) FROM (SELECT 1 FROM memory_entries WHERE embedding IS NULL AND sig IS NULL
                               LIMIT %(most)s) AS few) AS pending_memories,
       (SELECT count(*) FROM (SELECT 1 FROM conversations WHERE embedding IS NULL AND sig IS NULL
                               LIMIT %(most)s) AS few) AS pending_turns;

-- name: relation_sizes
-- exempt: sizes for the operator, no stored text.
SELECT c.relname AS name, pg_table_size(c.oid) AS table_bytes, pg_indexes_size(c.oid) AS index_bytes
  FROM pg_class AS c
 WHERE c.relkind = 'r' AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('conversations'))
   AND (c.relname IN ('memory_entries', 'conversations', 'memory_chunks', 'conversation_chunks', 'memory_history')
        OR c.relname LIKE 'hermes\_%%')
 ORDER BY 2 DESC, 1;

-- name: relation_sizes_spread
-- exempt: sizes for the operator, no stored text. For tables distributed over machines, with all their parts.
SELECT name, table_bytes, citus_total_relation_size(name::regclass) - table_bytes AS index_bytes
  FROM (SELECT logicalrelid::text AS name, citus_table_size(logicalrelid) AS table_bytes FROM pg_dist_partition) AS spread
 ORDER BY 2 DESC, 1;

-- name: partial_index_rows
-- exempt: an estimate of the catalogue, no stored text.
SELECT coalesce((SELECT reltuples FROM pg_class WHERE oid = to_regclass(%(name)s)), 0)::bigint AS rows;

-- name: database_bytes
-- exempt: a size for the operator, no stored text.
SELECT pg_database_size(current_database()) AS bytes;

-- name: recent_growth
-- exempt: totals for the operator, no stored text. The themes are found one by one along an index, and each theme's
-- last days at the end of the same index.
WITH RECURSIVE turn_themes(theme) AS (walked_themes(conversations; turn_themes)),
memory_themes(theme) AS (walked_themes(memory_entries; memory_themes)),
some_turns AS MATERIALIZED (SELECT theme FROM turn_themes WHERE theme IS NOT NULL LIMIT %(themes)s),
some_memories AS MATERIALIZED (SELECT theme FROM memory_themes WHERE theme IS NOT NULL LIMIT %(themes)s),
turns AS (
    SELECT coalesce(sum(day), 0)::bigint AS day, coalesce(sum(week), 0)::bigint AS week
      FROM some_turns CROSS JOIN LATERAL (
          SELECT count(*) FILTER (WHERE ts >= now() - interval '1 day') AS day, count(*) AS week
            FROM (SELECT ts FROM conversations WHERE agent_identity = theme AND ts >= now() - interval '7 days'
                   ORDER BY ts DESC LIMIT %(most)s) AS late) AS counted),
memories AS (
    SELECT coalesce(sum(day), 0)::bigint AS day, coalesce(sum(week), 0)::bigint AS week
      FROM some_memories CROSS JOIN LATERAL (
          SELECT count(*) FILTER (WHERE created_at >= now() - interval '1 day') AS day, count(*) AS week
            FROM (SELECT created_at FROM memory_entries WHERE agent_identity = theme AND created_at >= now() - interval '7 days'
                   ORDER BY created_at DESC LIMIT %(most)s) AS late) AS counted)
SELECT (SELECT count(*) FROM (SELECT theme FROM some_turns UNION SELECT theme FROM some_memories) AS each) AS themes,
       turns.day AS turns_last_day, turns.week AS turns_last_week,
       memories.day AS memories_last_day, memories.week AS memories_last_week
  FROM turns CROSS JOIN memories;

-- name: recent_growth_spread
-- exempt: totals for the operator, no stored text. For tables distributed over machines, each of which counts its own
-- themes.
WITH turns AS (
    SELECT agent_identity, count(*) FILTER (WHERE ts >= now() - interval '1 day') AS day,
           count(*) FILTER (WHERE ts >= now() - interval '7 days') AS week
      FROM conversations GROUP BY agent_identity),
memories AS (
    SELECT agent_identity, count(*) FILTER (WHERE created_at >= now() - interval '1 day') AS day,
           count(*) FILTER (WHERE created_at >= now() - interval '7 days') AS week
      FROM memory_entries GROUP BY agent_identity)
SELECT (SELECT count(*) FROM (SELECT agent_identity FROM turns UNION SELECT agent_identity FROM memories) AS each) AS themes,
       coalesce((SELECT sum(day) FROM turns), 0)::bigint AS turns_last_day,
       coalesce((SELECT sum(week) FROM turns), 0)::bigint AS turns_last_week,
       coalesce((SELECT sum(day) FROM memories), 0)::bigint AS memories_last_day,
       coalesce((SELECT sum(week) FROM memories), 0)::bigint AS memories_last_week;

-- name: count_held_removals
-- exempt: counts for the operator, no stored text.
SELECT f.origin, f.target, f.held_why, count(*) AS count, min(f.held_at) AS held_at
  FROM hermes_mirror AS f
  JOIN memory_entries AS m ON m.agent_identity = f.agent_identity AND m.target = f.target AND m.digest = f.digest
 WHERE f.held_at IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 5;
