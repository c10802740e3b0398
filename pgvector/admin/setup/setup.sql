-- The setup wizard's checks of a database before it is used.

-- name: appraise
-- exempt: touches no table of ours.
SELECT current_user AS role, current_setting('server_version_num')::integer / 10000 AS major,
       current_setting('server_encoding') AS encoding,
       coalesce((SELECT default_version FROM pg_available_extensions WHERE name = 'vector'), '') AS available,
       (SELECT coalesce(bool_and(has_table_privilege(to_regclass(name), 'SELECT')), false)
          FROM unnest(ARRAY['hermes_embedding', 'memory_entries', 'conversations']) AS name) AS readable,
       NOT pg_is_in_recovery()
       AND ((SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
            OR has_schema_privilege(current_schema(), 'CREATE')
               AND EXISTS (SELECT FROM pg_extension WHERE extname = 'vector')) AS may_migrate;
