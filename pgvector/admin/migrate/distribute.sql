-- Distribution of the tables by theme; run by an administrator.

-- name: distribution_state
-- exempt: reads the catalogue only.
SELECT quote_ident(current_database()) AS database, (SELECT extversion FROM pg_extension WHERE extname = 'citus') AS citus,
       (SELECT relrowsecurity FROM pg_class WHERE oid = 'conversations'::regclass) AS row_security,
       to_regclass('hermes_reembed') IS NOT NULL OR to_regclass('hermes_upgrade') IS NOT NULL AS changing;

-- name: distributed_tables
-- exempt: reads the catalogue only.
SELECT logicalrelid::regclass::text AS name FROM pg_dist_partition;

-- name: nodes_with_shards
-- exempt: reads the catalogue only.
SELECT count(*) AS count FROM pg_dist_node WHERE isactive AND shouldhaveshards;
