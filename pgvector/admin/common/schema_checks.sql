-- Checks of the tables for operators, beyond what an agent checks: rights, indexes, versions.

-- name: invalid_indexes
-- exempt: reads the catalogue only. An index that is being built is not valid either.
SELECT c.relname AS name
  FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
 WHERE i.indrelid IN (to_regclass('memory_entries'), to_regclass('conversations'),
                      to_regclass('memory_chunks'), to_regclass('conversation_chunks'))
   AND NOT i.indisvalid
   AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index AS p WHERE p.index_relid = i.indexrelid);

-- name: keys_without_theme
-- exempt: reads the catalogue only. Lists the tables whose key is the row's id alone, and whether an unfinished index
-- for the other key exists.
SELECT c.relname AS name,
       EXISTS (SELECT FROM pg_index AS i JOIN pg_class AS built ON built.oid = i.indexrelid
                WHERE i.indrelid = c.oid AND built.relname = c.relname || '_theme_key' AND NOT i.indisvalid) AS invalid
  FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid
 WHERE k.contype = 'p' AND cardinality(k.conkey) = 1
   AND c.oid IN (to_regclass('memory_entries'), to_regclass('conversations'), to_regclass('memory_history'));

-- name: own_rights
-- exempt: reads the catalogue only.
SELECT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS superuser,
       has_schema_privilege(current_schema(), 'CREATE') AS creates,
       EXISTS (SELECT FROM pg_tables
                WHERE tablename IN ('memory_entries', 'conversations') AND schemaname = current_schema()
                  AND pg_has_role(current_user, tableowner, 'USAGE')) AS owns;

-- name: lacking_rights
-- exempt: reads the catalogue only. In some tables only some columns may be written.
SELECT privilege || ' on ' || name AS lacking
  FROM (VALUES (1, 'table', 'memory_entries', 'SELECT INSERT UPDATE DELETE'),
               (2, 'table', 'conversations', 'SELECT INSERT UPDATE DELETE'),
               (3, 'table', 'memory_chunks', 'SELECT INSERT UPDATE DELETE'),
               (4, 'table', 'conversation_chunks', 'SELECT INSERT UPDATE DELETE'),
               (5, 'table', 'hermes_operations', 'SELECT INSERT UPDATE DELETE'),
               (6, 'table', 'hermes_tombstones', 'SELECT INSERT UPDATE DELETE'),
               (7, 'table', 'hermes_mirror', 'SELECT INSERT UPDATE DELETE'),
               (8, 'table', 'hermes_retention', 'SELECT INSERT UPDATE DELETE'),
               (9, 'table', 'hermes_proposals', 'SELECT INSERT UPDATE DELETE'),
               (10, 'table', 'hermes_read_turns', 'SELECT INSERT UPDATE DELETE'),
               (11, 'table', 'hermes_migrations', 'SELECT'),
               (12, 'table', 'hermes_embedding', 'SELECT UPDATE'),
               (13, 'table', 'memory_history', 'SELECT DELETE'),
               (14, 'columns', 'memory_history', 'INSERT UPDATE'),
               (15, 'log', 'hermes_maintenance', 'SELECT INSERT'),
               (16, 'sequence', 'memory_entries_id_seq', 'USAGE'),
               (17, 'sequence', 'conversations_id_seq', 'USAGE')) AS wanted (number, kind, name, privileges)
 CROSS JOIN LATERAL string_to_table(privileges, ' ') WITH ORDINALITY AS one (privilege, place)
 WHERE NOT CASE kind WHEN 'table' THEN has_table_privilege(name, privilege)
                     WHEN 'sequence' THEN has_sequence_privilege(to_regclass(name), privilege)
                     WHEN 'log' THEN %(confined)s OR has_any_column_privilege(name, privilege)
                     ELSE has_any_column_privilege(name, privilege) END
 ORDER BY number, place;

-- name: functions_out_of_reach
-- exempt: reads the catalogue only. Lists what a role has to call, and may not: where PUBLIC has no right to new functions.
SELECT p.oid::regprocedure::text AS name, n.nspname AS home, coalesce(e.extname, '') AS extension
  FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
  LEFT JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.refclassid = 'pg_extension'::regclass
   AND d.deptype = 'e'
  LEFT JOIN pg_extension AS e ON e.oid = d.refobjid
 WHERE (e.extname IN ('vector', 'pg_trgm')
        OR n.oid = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('hermes_migrations')) AND p.proname IN (
            'hermes_digest', 'hermes_theme_lexeme', 'hermes_lexemes', 'hermes_search_vector', 'hermes_folded', 'hermes_code',
            'hermes_move_history', 'hermes_admit_owners', 'hermes_themes_of', 'hermes_memories_with', 'hermes_turns_with',
            'hermes_turns_like', 'hermes_is_own_row', 'hermes_expected_rows'))
   AND NOT has_function_privilege(coalesce(%(role)s, current_user), p.oid, 'EXECUTE')
 ORDER BY 3, 1;

-- name: versions
-- exempt: touches no table of ours.
SELECT current_setting('server_version') AS postgres,
       coalesce((SELECT extversion FROM pg_extension WHERE extname = 'vector'), '') AS pgvector;

-- name: functions_astray
-- exempt: reads the catalogue only. Lists our functions whose own search path does not lead to our tables, or to vectors if they
-- use some, with the path that does, as after somebody has renamed the schema.
SELECT p.oid::regprocedure::text AS name, substr(setting, 13) AS looks_in, home.name AS home,
       concat_ws(', ', 'pg_catalog', home.name, nullif(vectors.name, home.name), 'pg_temp') AS path
  FROM (SELECT relnamespace AS oid, relnamespace::regnamespace::text AS name
          FROM pg_class WHERE oid = to_regclass('hermes_migrations')) AS home
 CROSS JOIN (SELECT extnamespace::regnamespace::text AS name FROM pg_extension WHERE extname = 'vector') AS vectors
  JOIN pg_proc AS p ON p.proname ^@ 'hermes_' AND (p.pronamespace = home.oid OR p.oid IN (
           SELECT tgfoid FROM pg_trigger WHERE tgrelid IN (to_regclass('memory_entries'), to_regclass('conversations'))))
 CROSS JOIN LATERAL unnest(p.proconfig) AS setting
 WHERE setting ^@ 'search_path=' AND (
       position(', ' || home.name || ', ' IN ', ' || substr(setting, 13) || ', ') = 0
       OR position('binary_quantize' IN p.prosrc) > 0 AND position(', ' || vectors.name || ', ' IN ', ' || substr(setting, 13) || ', ') = 0)
 ORDER BY 1;
