-- Counts, and statements that operators' commands share.

-- name: read_clock
-- exempt: the server's clock, by which ages are computed, and whether this role may write to the log; touches no table.
SELECT now() AS now, has_any_column_privilege('hermes_maintenance', 'INSERT') AS may_record;

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

-- name: record_maintenance
-- exempt: what an operator did, no stored text.
INSERT INTO hermes_maintenance (os_user, host, verb, arguments, counts)
VALUES (%(os_user)s, %(host)s, %(verb)s, %(arguments)s, %(counts)s);
