-- The statements that every connection of ours begins with.

-- name: session_types
-- exempt: reads the catalogue only. The type vector as this role's search path shows it, and whether that path leads to our tables
-- before all others. No row where it does not show the type.
SELECT vector.oid, vector.typarray AS array_oid,
       to_regclass('hermes_migrations') = to_regclass(quote_ident(current_schema()) || '.hermes_migrations') AS leads_to_ours
  FROM pg_type AS vector WHERE vector.oid = to_regtype('vector');

-- name: session_path
-- exempt: reads the catalogue only, for which it takes longer than all others of a new session together: asked for where
-- `session_types` says that the role's own path does not do. The search path with which this role sees the type vector, and
-- our tables before all others, if its own path does not do so; else no row. Where its path shows none of our tables, only those of a superuser or of the
-- database's owner count, and none if there are several: otherwise anybody who may create a schema could make agents write to
-- tables there. The extension's schema comes last: what a migration creates goes to the first one.
SELECT concat_ws(', ', home, nullif(current_setting('search_path'), ''), vectors) AS path
  FROM (SELECT coalesce(
                   (SELECT quote_ident(n.nspname) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                     WHERE c.oid = to_regclass('hermes_migrations')),
                   (SELECT min(quote_ident(n.nspname)) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                      JOIN pg_roles AS owner ON owner.oid = c.relowner
                     WHERE c.relname = 'hermes_migrations' AND c.relkind = 'r' AND has_schema_privilege(n.oid, 'USAGE')
                       AND (owner.rolsuper OR owner.oid = (SELECT datdba FROM pg_database WHERE datname = current_database()))
                    HAVING count(*) = 1)) AS home,
               (SELECT quote_ident(n.nspname) FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
                 WHERE e.extname = 'vector' AND to_regtype('vector') IS NULL AND has_schema_privilege(n.oid, 'USAGE')) AS vectors)
            AS ours
 WHERE home IS DISTINCT FROM quote_ident(coalesce(current_schema(), '')) AND home IS NOT NULL OR vectors IS NOT NULL;

-- name: set_path
-- exempt: touches no table.
SELECT set_config('search_path', %(path)s, %(local)s) WHERE %(pid)s::integer IS NULL OR pg_backend_pid() = %(pid)s;

-- name: settle_session
-- exempt: touches no table. For what is done outside of `set_timeouts`, whatever the role or the database sets. A pooler in
-- transaction mode would pass the settings on to other clients: there only those are set that it keeps for each client. The last ones
-- have the server end the session of a machine that is gone within about two minutes, where it would keep its locks for two hours.
SELECT (SELECT count(set_config(name, value, false))
          FROM (VALUES ('DateStyle', 'ISO, YMD'), ('TimeZone', 'UTC'), ('standard_conforming_strings', 'on')) AS given(name, value)) AS kept,
       (SELECT count(set_config(name, value, false))
          FROM (VALUES ('IntervalStyle', 'postgres'), ('extra_float_digits', '1'), ('row_security', 'on'), ('array_nulls', 'on'),
                       ('lock_timeout', '0'), ('idle_in_transaction_session_timeout', '0'), ('idle_session_timeout', '0'),
                       ('tcp_keepalives_idle', '30'), ('tcp_keepalives_interval', '10'))
               AS given(name, value)
         WHERE pg_backend_pid() = %(pid)s) AS own,
       CASE WHEN current_setting('server_version_num')::integer >= 170000 AND pg_backend_pid() = %(pid)s
            THEN set_config('transaction_timeout', '0', false) END AS whole,
       coalesce(current_setting('hermes_pgvector.spread', true), '') = 'on' AS spread;
