-- The HNSW indexes, for operators.

-- name: hnsw_index_state
-- exempt: reads the catalogue only. An HNSW index that is being built is not valid either.
SELECT CASE WHEN i.indexrelid IS NULL THEN 'missing' WHEN i.indisvalid THEN 'valid'
            WHEN EXISTS (SELECT FROM pg_stat_progress_create_index AS p WHERE p.index_relid = i.indexrelid) THEN 'being built'
            ELSE 'unfinished' END AS state,
       a.atttypmod AS dims, coalesce(pg_relation_size(i.indexrelid), 0) AS index_bytes,
       (SELECT setting::bigint * 1024 FROM pg_settings WHERE name = 'maintenance_work_mem') AS given_bytes
  FROM pg_class AS t JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attname = 'embedding'
  LEFT JOIN pg_index AS i ON i.indrelid = t.oid AND i.indexrelid = to_regclass(%(index)s)
 WHERE t.oid = %(table)s::regclass;

-- name: is_former_index
-- exempt: reads the catalogue only.
SELECT EXISTS (SELECT FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                WHERE i.indexrelid = to_regclass(%(index)s) AND a.attname = 'embedding') AS former;

-- name: build_progress
-- exempt: figures of a build of an index, no stored text.
SELECT blocks_done AS done, blocks_total AS total FROM pg_stat_progress_create_index
 WHERE pid = %(backend)s AND blocks_total > 0 AND phase LIKE 'building index%%';

-- name: theme_indexes
-- exempt: reads the catalogue only. The HNSW indexes over the rows of one theme, which their condition names.
SELECT c.relname::text AS name, greatest(0, c.reltuples)::bigint AS rows,
       replace(substring(pg_get_expr(i.indpred, i.indrelid) FROM '''(.*)''::text'), '''''', '''') AS theme
  FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS m ON m.oid = c.relam
 WHERE i.indrelid = %(table)s::regclass AND m.amname = 'hnsw' AND c.relname ~ '_theme_[0-9a-f]{16}_idx$'
 ORDER BY theme;

-- name: existing_indexes
-- exempt: reads the catalogue only.
SELECT ARRAY(SELECT name FROM unnest(%(names)s::text[]) AS name WHERE to_regclass(name) IS NOT NULL) AS names;

-- name: index_hnsw_theme
-- exempt: only the catalogue changes.
CREATE INDEX CONCURRENTLY {index} ON {rows} USING hnsw (code bit_hamming_ops) WITH (m = 16, ef_construction = 64)
  WHERE agent_identity = {theme};

-- name: some_vectors
-- Takes rows from all over a theme, the same ones each time.
SELECT embedding FROM {table} WHERE agent_identity = %(theme)s AND embedding IS NOT NULL ORDER BY hashint8(id) LIMIT %(most)s;

-- name: plan_as_recall
-- exempt: touches no table. The settings that an agent's transaction relies on, see set_timeouts.
SELECT set_config('enable_sort', 'off', true) AS sort, set_config('jit', 'off', true) AS jit,
       set_config('plan_cache_mode', 'force_generic_plan', true) AS plans,
       set_config('random_page_cost', current_setting('seq_page_cost'), true) AS seeks;
