-- Who works on a database, and which one it is.

-- name: read_clock
-- exempt: the server's clock, by which ages are computed, and whether this role may write to the log; touches no table.
SELECT now() AS now, has_any_column_privilege('hermes_maintenance', 'INSERT') AS may_record;

-- name: may_write_log
-- exempt: touches no table.
SELECT has_any_column_privilege('hermes_maintenance', 'INSERT')
       AND NOT (pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean) AS may;

-- name: record_maintenance
-- exempt: what an operator did, no stored text.
INSERT INTO hermes_maintenance (os_user, host, verb, arguments, counts)
VALUES (%(os_user)s, %(host)s, %(verb)s, %(arguments)s, %(counts)s);

-- name: database_identity
-- exempt: touches no table. The port is the server's own: connections by TCP and by a socket have different ones.
SELECT oid::bigint AS database, pg_postmaster_start_time() AS started, current_setting('port') AS port
  FROM pg_database WHERE datname = current_database();
