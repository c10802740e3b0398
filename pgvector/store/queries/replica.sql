-- What is read from a replica, and from its primary.

-- name: server_identity
-- exempt: which database this is, no stored text. The same on a primary and its replicas, and nowhere else.
SELECT (SELECT oid FROM pg_database WHERE datname = current_database())::bigint AS database,
       coalesce(to_regclass('conversations')::oid, 0)::bigint AS tables,
       has_function_privilege('pg_control_system()', 'EXECUTE') AND has_function_privilege('pg_control_checkpoint()', 'EXECUTE')
         AND has_function_privilege('pg_control_recovery()', 'EXECUTE') AS tells_system;

-- name: server_system
-- exempt: which cluster of databases this is.
SELECT system_identifier AS system FROM pg_control_system();

-- name: incarnation
-- exempt: when this server process began and the number of a table, no stored text. A server that took over has begun at
-- another time; tables that were recreated have other numbers.
SELECT incarnation() AS incarnation;

-- name: server_migrations
-- exempt: when the tables were made. Distinguishes databases if a server does not tell its identity.
SELECT string_agg(version || ' ' || checksum || ' ' || extract(epoch FROM applied_at), ', ' ORDER BY version) AS applied
  FROM hermes_migrations;

-- name: primary_position
-- exempt: how much a primary has written, in bytes of WAL, and its timeline.
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS position,
       ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer AS timeline;

-- name: replica_position
-- exempt: how much of that a replica has replayed; `follows` is false once the replica was promoted.
SELECT pg_is_in_recovery() AS follows, pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint AS position;

-- name: replica_timeline
-- exempt: which timeline a replica follows; after a failover it learns of a new one late.
SELECT greatest((SELECT timeline_id FROM pg_control_checkpoint()),
                (SELECT min_recovery_end_timeline FROM pg_control_recovery()))::integer AS timeline;
