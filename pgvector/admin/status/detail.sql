-- The counts of `status --verbose`, for which every row is read.

-- name: count_facts
-- exempt: totals for the operator, no stored text. The first three counts leave out what is not recalled.
SELECT agent_identity AS theme,
       count(*) FILTER (WHERE recalled AND coalesce(kind, 'fact') NOT IN ('procedure', 'reflection')) AS facts,
       count(*) FILTER (WHERE recalled AND kind = 'procedure') AS procedures,
       count(*) FILTER (WHERE recalled AND kind = 'reflection') AS reflections,
       count(*) FILTER (WHERE state = 'superseded') AS superseded, count(*) FILTER (WHERE state = 'archived') AS archived,
       count(*) FILTER (WHERE NOT recalled AND coalesce(state, 'active') IN ('active', 'closed')) AS expired,
       count(embedding) AS vectors
  FROM (SELECT agent_identity, kind, state, embedding, is_current(memory_entries) AS recalled FROM memory_entries) AS each
 GROUP BY agent_identity ORDER BY agent_identity;

-- name: count_episodes
-- exempt: totals for the operator, no stored text. Compacted: old turns whose vectors were dropped, or that a summary
-- replaces.
SELECT theme, count(*) AS episodes, count(*) FILTER (WHERE compacted) AS compacted, sum(turns)::bigint AS turns,
       sum(vectors)::bigint AS vectors
  FROM (SELECT agent_identity AS theme, count(*) AS turns, count(embedding) AS vectors,
               bool_or(embedding IS NULL AND sig IS NOT NULL OR metadata ? 'summary_of') AS compacted
          FROM conversations GROUP BY agent_identity, session_id) AS episode
 GROUP BY theme ORDER BY theme;

-- name: last_vacuum
-- exempt: times only.
SELECT max(greatest(last_vacuum, last_autovacuum)) AS at FROM pg_stat_user_tables
 WHERE relid IN ('memory_entries'::regclass, 'conversations'::regclass);

-- name: last_compression
-- exempt: what operators did, no stored text.
SELECT max(done_at) AS at FROM hermes_maintenance WHERE verb = 'compact';
