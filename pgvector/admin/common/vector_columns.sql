-- What `DROP EXTENSION vector CASCADE` took, and the rest of the migrations does not bring back.

-- name: lost_vector_columns
-- exempt: whether columns are missing, and how many floats the codes that stayed are of; no stored text.
SELECT (SELECT atttypmod FROM pg_attribute WHERE attrelid = to_regclass('memory_entries') AND attname = 'sig') AS dims
 WHERE to_regclass('memory_entries') IS NOT NULL
   AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('memory_entries') AND attname = 'embedding');

-- name: add_vector_columns
-- exempt: columns without a value. Turns, and the parts of long ones, are then as after `compact`: their codes stayed.
-- Memories wait for a vector, and their parts are made anew with it.
BEGIN;
SET LOCAL lock_timeout = '800ms';
CREATE EXTENSION IF NOT EXISTS vector;
DELETE FROM memory_chunks;
DO $$
DECLARE
    type constant text := format('vector(%s)', current_setting('hermes_pgvector.lost_dims'));
BEGIN
    EXECUTE 'ALTER TABLE memory_entries ADD COLUMN IF NOT EXISTS embedding ' || type;
    EXECUTE 'ALTER TABLE conversations ADD COLUMN IF NOT EXISTS embedding ' || type;
    EXECUTE 'ALTER TABLE conversation_chunks ADD COLUMN IF NOT EXISTS embedding ' || type;
    EXECUTE format('ALTER TABLE memory_chunks ADD COLUMN IF NOT EXISTS embedding %s NOT NULL', type);
END $$;
UPDATE memory_entries SET sig = NULL WHERE sig IS NOT NULL;
COMMIT;
