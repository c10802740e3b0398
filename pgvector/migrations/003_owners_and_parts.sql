-- hermes-memory-pgvector, migration 003: the two main tables can be dropped and given to another role as they stand.
--
-- Parts of long texts go with their row by a trigger instead of a foreign key, which would forbid
--     DROP TABLE IF EXISTS conversations; DROP TABLE IF EXISTS memory_entries;
-- and whoever becomes the owner of memory_entries and conversations may use the tables beside them as well.
--
-- Run it as 001_schema.sql, after it. Running it again changes nothing. Where it ends with
-- "canceling statement due to lock timeout", it may be run again at once.

BEGIN;

SELECT pg_advisory_xact_lock(7310579462);
-- While it waits for a table everybody else waits behind it: rather it ends, and is run again.
SET LOCAL lock_timeout = '800ms';

-- With the rights of its owner, as a foreign key would work. A new part needs no check: the statement that adds it
-- changes its row, and so waits for whoever deletes that.
DO $once$
BEGIN
    IF NOT EXISTS (SELECT FROM hermes_migrations WHERE version = 3) THEN
        CREATE OR REPLACE FUNCTION hermes_drop_chunks() RETURNS trigger
            LANGUAGE plpgsql SECURITY DEFINER
        AS $drop$
        BEGIN
            IF TG_OP = 'TRUNCATE' THEN
                EXECUTE format('DELETE FROM %I.%I', TG_TABLE_SCHEMA, TG_ARGV[0]);
            ELSE
                EXECUTE format('DELETE FROM %I.%I WHERE row_id = $1', TG_TABLE_SCHEMA, TG_ARGV[0]) USING OLD.id;
            END IF;
            RETURN NULL;
        END
        $drop$;
    END IF;
END
$once$;
REVOKE ALL ON FUNCTION hermes_drop_chunks() FROM PUBLIC;

CREATE OR REPLACE TRIGGER hermes_drop_chunks AFTER DELETE ON memory_entries
    FOR EACH ROW EXECUTE FUNCTION hermes_drop_chunks('memory_chunks');
CREATE OR REPLACE TRIGGER hermes_truncate_chunks AFTER TRUNCATE ON memory_entries
    FOR EACH STATEMENT EXECUTE FUNCTION hermes_drop_chunks('memory_chunks');
CREATE OR REPLACE TRIGGER hermes_drop_chunks AFTER DELETE ON conversations
    FOR EACH ROW EXECUTE FUNCTION hermes_drop_chunks('conversation_chunks');
CREATE OR REPLACE TRIGGER hermes_truncate_chunks AFTER TRUNCATE ON conversations
    FOR EACH STATEMENT EXECUTE FUNCTION hermes_drop_chunks('conversation_chunks');
ALTER TABLE memory_chunks DROP CONSTRAINT IF EXISTS memory_chunks_row_id_fkey;
ALTER TABLE conversation_chunks DROP CONSTRAINT IF EXISTS conversation_chunks_row_id_fkey;

-- Gives the roles that own memory_entries or conversations what agents need of the other tables. Agents call it when they
-- miss a right: who owns those two has every row already.
DO $once$
BEGIN
    IF NOT EXISTS (SELECT FROM hermes_migrations WHERE version = 3) THEN
        CREATE OR REPLACE FUNCTION hermes_admit_owners() RETURNS void
            LANGUAGE plpgsql SECURITY DEFINER
        AS $admit$
        DECLARE
            holder name;
        BEGIN
            FOR holder IN SELECT DISTINCT r.rolname FROM pg_class AS c JOIN pg_roles AS r ON r.oid = c.relowner
                           WHERE c.oid IN ('memory_entries'::regclass, 'conversations'::regclass) AND NOT r.rolsuper LOOP
                EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', (SELECT relnamespace::regnamespace FROM pg_class
                                                                   WHERE oid = 'memory_entries'::regclass), holder);
                EXECUTE format('GRANT SELECT ON hermes_migrations TO %I', holder);
                EXECUTE format('GRANT SELECT, UPDATE ON hermes_embedding TO %I', holder);
                EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON memory_entries, conversations, memory_chunks, '
                               'conversation_chunks, hermes_operations, hermes_tombstones, hermes_mirror, hermes_retention TO %I', holder);
                EXECUTE format('GRANT SELECT, DELETE, UPDATE (agent_identity, old_content, old_row) ON memory_history TO %I', holder);
                -- Every column but those that say when and by which role.
                EXECUTE format('GRANT INSERT (%s) ON memory_history TO %I', (
                    SELECT string_agg(format('%I', attname), ', ') FROM pg_attribute
                     WHERE attrelid = 'memory_history'::regclass AND attnum > 0 AND NOT attisdropped
                       AND attname NOT IN ('id', 'at', 'db_role')), holder);
                EXECUTE format('GRANT SELECT, INSERT (os_user, host, verb, arguments, counts) ON hermes_maintenance TO %I', holder);
                EXECUTE format('GRANT USAGE ON SEQUENCE memory_entries_id_seq, conversations_id_seq TO %I', holder);
            END LOOP;
        END
        $admit$;
    END IF;
END
$once$;

-- Whatever the session of the caller holds, a temporary table of the same name above all, they find our tables.
DO $paths$
BEGIN
    EXECUTE format('ALTER FUNCTION hermes_drop_chunks() SET search_path = pg_catalog, %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION hermes_admit_owners() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END
$paths$;

INSERT INTO hermes_migrations (version, name, checksum)
VALUES (3, 'owners_and_parts', '5b4a636a1c23c4bcb40a6a8698e663a32299bb83e2d765dec07dbf79fac03377')
ON CONFLICT (version) DO NOTHING;

COMMIT;
