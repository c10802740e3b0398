-- Distribution of the tables by theme; run by an administrator.

-- name: distribution_state
-- exempt: reads the catalogue only.
SELECT quote_ident(current_database()) AS database, (SELECT extversion FROM pg_extension WHERE extname = 'citus') AS citus,
       (SELECT relrowsecurity FROM pg_class WHERE oid = 'conversations'::regclass) AS row_security,
       to_regclass('hermes_reembed') IS NOT NULL OR to_regclass('hermes_upgrade') IS NOT NULL AS changing;

-- name: distributed_tables
-- exempt: reads the catalogue only.
SELECT logicalrelid::regclass::text AS name FROM pg_dist_partition;

-- name: partial_writers
-- exempt: reads the catalogue only. The roles that may insert some columns of a table, and the columns that they may not.
SELECT logged.name, quote_ident(pg_get_userbyid(held.grantee)) AS role,
       string_agg(quote_ident(attname), ', ' ORDER BY attnum) AS columns
  FROM (VALUES ('memory_history'), ('hermes_maintenance')) AS logged (name)
 CROSS JOIN LATERAL (SELECT DISTINCT grantee FROM pg_attribute, aclexplode(attacl)
                      WHERE attrelid = logged.name::regclass AND privilege_type = 'INSERT' AND grantee <> 0) AS held
  JOIN pg_attribute ON attrelid = logged.name::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
 WHERE NOT has_column_privilege(held.grantee, attrelid, attnum, 'INSERT')
 GROUP BY logged.name, held.grantee ORDER BY logged.name, role;
