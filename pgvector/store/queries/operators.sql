-- Counts, the clock, and what several features of the operator's tool delete.

-- name: server_clock
-- exempt: touches no table.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at;

-- name: count_all
-- exempt: totals for the operator, no stored text.
SELECT (SELECT count(*) FROM memory_entries) AS memories,
       (SELECT count(*) FROM conversations) AS turns,
       (SELECT count(*) FROM memory_entries WHERE embedding IS NULL AND sig IS NULL) AS pending_memories,
       (SELECT count(*) FROM conversations WHERE embedding IS NULL AND sig IS NULL) AS pending_turns;

-- name: delete_turns
DELETE FROM conversations WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s);
