-- hermes-memory-pgvector, migration 004: what nearness is told by has three bits for each number of a vector, where it had one.
--
-- Run it as 001_schema.sql, after it. Running it again changes nothing.
--
-- Where rows are stored already it only adds columns, and takes no longer for a large table. Recall then goes by the old
-- signatures of these rows until
--     hermes-pgvector migrate --admin-dsn "dbname=hermes_memory user=postgres"
-- has computed their codes and built the indexes, while agents go on. Interrupted, it goes on where it was.

BEGIN;

SELECT pg_advisory_xact_lock(7310579462);

-- For each number of a vector of unit length, whether it is above three thresholds: around zero four steps that numbers of
-- a sentence's vector fall into about equally often. In a CASE, for to be STRICT would keep it from being inlined.
CREATE OR REPLACE FUNCTION hermes_code(embedding vector) RETURNS bit varying
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN embedding IS NOT NULL THEN
        binary_quantize(l2_normalize(embedding)
            + array_fill(0.6 / sqrt(vector_dims(embedding)), ARRAY[vector_dims(embedding)])::vector)
        || binary_quantize(embedding)
        || binary_quantize(l2_normalize(embedding)
            - array_fill(0.6 / sqrt(vector_dims(embedding)), ARRAY[vector_dims(embedding)])::vector) END;

DO $columns$
DECLARE
    each record;
BEGIN
    -- While it waits for a table everybody else waits behind it: rather it ends, and is run again.
    PERFORM set_config('lock_timeout', '800ms', true);
    -- Also of the new vectors, where a change of the model is under way.
    FOR each IN SELECT a.attrelid::regclass AS owner, a.atttypmod AS dims,
                       CASE a.attname WHEN 'embedding' THEN 'code' ELSE 'code_next' END AS name
                  FROM pg_attribute AS a
                 WHERE a.attname IN ('embedding', 'embedding_next') AND NOT a.attisdropped
                   AND a.attrelid IN (to_regclass('memory_entries'), to_regclass('conversations'),
                                      to_regclass('memory_chunks'), to_regclass('conversation_chunks'),
                                      to_regclass('memory_chunks_next'), to_regclass('conversation_chunks_next')) LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN IF NOT EXISTS %I bit(%s)', each.owner, each.name, 3 * each.dims);
    END LOOP;
END
$columns$;
COMMENT ON COLUMN conversations.code IS 'three bits for each number of the embedding; NULL where only sig was ever computed';

-- As in 001, with the code.
CREATE OR REPLACE FUNCTION hermes_keep_vectors() RETURNS trigger
    LANGUAGE plpgsql
AS $keep$
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.sig := binary_quantize(NEW.embedding);
        NEW.code := hermes_code(NEW.embedding);
        RETURN NEW;
    END IF;
    -- `compact` drops vectors and keeps what tells their nearness; whoever else sets a vector to NULL wants a new one.
    IF NEW.embedding IS NULL AND current_setting('hermes_pgvector.keep_sig', true) = 'on' THEN
        RETURN NULL;
    END IF;
    -- Our own statements set all three; somebody has set one by hand, or a version that knows no codes has.
    EXECUTE format('UPDATE %I.%I SET sig = binary_quantize(embedding), code = hermes_code(embedding) '
                   'WHERE agent_identity = $1 AND id = $2', TG_TABLE_SCHEMA, TG_TABLE_NAME) USING NEW.agent_identity, NEW.id;
    RETURN NULL;
END
$keep$;

CREATE OR REPLACE FUNCTION hermes_keep_chunks() RETURNS trigger
    LANGUAGE plpgsql
AS $keep$
BEGIN
    IF NEW.content IS DISTINCT FROM OLD.content THEN
        EXECUTE format('DELETE FROM %I.%I WHERE agent_identity = $1 AND row_id = $2', TG_TABLE_SCHEMA, TG_ARGV[0])
            USING OLD.agent_identity, OLD.id;
        IF NEW.sig IS NOT NULL AND (NEW.embedding IS NULL OR NEW.embedding IS NOT DISTINCT FROM OLD.embedding) THEN
            EXECUTE format('UPDATE %I.%I SET embedding = NULL, sig = NULL, code = NULL, embed_after = NULL '
                           'WHERE agent_identity = $1 AND id = $2', TG_TABLE_SCHEMA, TG_TABLE_NAME)
                USING NEW.agent_identity, NEW.id;
        END IF;
    ELSE
        EXECUTE format('UPDATE %I.%I SET agent_identity = $3 WHERE agent_identity = $1 AND row_id = $2', TG_TABLE_SCHEMA,
                       TG_ARGV[0]) USING OLD.agent_identity, OLD.id, NEW.agent_identity;
    END IF;
    RETURN NULL;
END
$keep$;

CREATE OR REPLACE TRIGGER hermes_keep_sig AFTER UPDATE OF embedding ON memory_entries
    FOR EACH ROW WHEN (NEW.sig IS DISTINCT FROM binary_quantize(NEW.embedding)
                       OR NEW.code IS DISTINCT FROM hermes_code(NEW.embedding)) EXECUTE FUNCTION hermes_keep_vectors();
CREATE OR REPLACE TRIGGER hermes_keep_sig AFTER UPDATE OF embedding ON conversations
    FOR EACH ROW WHEN (NEW.sig IS DISTINCT FROM binary_quantize(NEW.embedding)
                       OR NEW.code IS DISTINCT FROM hermes_code(NEW.embedding)) EXECUTE FUNCTION hermes_keep_vectors();
DO $once$
BEGIN
    IF NOT EXISTS (SELECT FROM hermes_migrations WHERE version = 4) THEN
        CREATE OR REPLACE TRIGGER hermes_keep_vectors BEFORE INSERT ON memory_chunks
            FOR EACH ROW EXECUTE FUNCTION hermes_keep_vectors();
        CREATE OR REPLACE TRIGGER hermes_keep_vectors BEFORE INSERT ON conversation_chunks
            FOR EACH ROW EXECUTE FUNCTION hermes_keep_vectors();
    END IF;
END
$once$;

-- What has a code is found by it, and what has none by its signature: the index of these keeps its name, under which 001
-- looks for it. Only where there are no rows yet; else `migrate` does it with CREATE INDEX CONCURRENTLY.
DO $indexes$
DECLARE
    each record;
    filled boolean;
    left_for_migrate boolean := false;
BEGIN
    FOR each IN SELECT * FROM (VALUES ('memory_entries', 'id'), ('conversations', 'id'),
                                      ('memory_chunks', 'row_id, part'), ('conversation_chunks', 'row_id, part'))
                       AS known(name, key) LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %I)', each.name) INTO filled;
        CONTINUE WHEN to_regclass(each.name || '_theme_code_idx') IS NOT NULL;
        left_for_migrate := left_for_migrate OR filled;
        CONTINUE WHEN filled;
        EXECUTE format('DROP INDEX IF EXISTS %I', each.name || '_theme_sig_idx');
        EXECUTE format('CREATE INDEX %I ON %I (agent_identity) INCLUDE (sig, %s) WHERE code IS NULL AND sig IS NOT NULL',
                       each.name || '_theme_sig_idx', each.name, each.key);
        EXECUTE format('CREATE INDEX %I ON %I (agent_identity) INCLUDE (code, %s) WHERE code IS NOT NULL',
                       each.name || '_theme_code_idx', each.name, each.key);
    END LOOP;
    -- The graph that is walked across all themes is one of signatures: a row in it costs less than half the time and a
    -- tenth of the space. One of whole vectors has a name of its own.
    FOR each IN SELECT * FROM (VALUES ('memory_entries'), ('conversations')) AS known(name) LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %I)', each.name) INTO filled;
        CONTINUE WHEN filled OR EXISTS (
            SELECT FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
             WHERE i.indexrelid = to_regclass(each.name || '_embedding_idx') AND a.attname = 'sig');
        EXECUTE format('DROP INDEX IF EXISTS %I', each.name || '_embedding_idx');
        CONTINUE WHEN to_regclass(each.name || '_embedding_full_idx') IS NOT NULL;
        EXECUTE format('CREATE INDEX %I ON %I USING hnsw (sig bit_hamming_ops) WITH (m = 16, ef_construction = 64)',
                       each.name || '_embedding_idx', each.name);
    END LOOP;
    IF left_for_migrate THEN
        RAISE NOTICE 'stored rows are found by their old signatures until this has computed their codes: hermes-pgvector migrate --admin-dsn "dbname=% user=%"',
            current_database(), current_user;
    END IF;
END
$indexes$;

INSERT INTO hermes_migrations (version, name, checksum)
VALUES (4, 'codes', '3a2990f4ce1df1c181c308a5ba3a61765d9776801f3cbb9b277ed9d2aa0b7538')
ON CONFLICT (version) DO NOTHING;

COMMIT;
