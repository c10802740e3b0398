-- Codes for rows that were stored by a version without codes. For an administrator.

-- name: codes_are_missing
-- exempt: whether there are such rows, no stored text. Rows without a vector keep their signature only. Citus needs the 1.
SELECT EXISTS (SELECT 1 FROM {table} WHERE code IS NULL AND sig IS NOT NULL AND embedding IS NOT NULL) AS missing,
       pg_relation_size({table_name}::regclass) / current_setting('block_size')::integer AS blocks;

-- name: fill_codes
-- exempt: a number for a vector, row by row, by their place in the table. What has a vector and no signature is not recalled.
UPDATE {table} SET code = hermes_code(embedding)
 WHERE ctid >= format('(%%s,0)', %(first)s::bigint)::tid AND ctid < format('(%%s,0)', %(end)s::bigint)::tid
   AND code IS NULL AND embedding IS NOT NULL AND sig IS NOT NULL;

-- name: index_codes
-- exempt: only the catalogue changes.
CREATE INDEX CONCURRENTLY {index} ON {table} (agent_identity) INCLUDE (code, {key}) WHERE code IS NOT NULL;

-- name: index_signatures
-- exempt: only the catalogue changes.
CREATE INDEX CONCURRENTLY {index} ON {table} (agent_identity) INCLUDE (sig, {key}) WHERE code IS NULL AND sig IS NOT NULL;

-- name: signatures_are_apart
-- exempt: reads the catalogue only. The index of a version that knew no codes holds every row.
SELECT EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(%(index)s) AND indpred IS NOT NULL) AS apart;

-- name: replace_signatures
-- exempt: only the catalogue changes.
DROP INDEX IF EXISTS {old_index};
ALTER INDEX {index} RENAME TO {old_index};
