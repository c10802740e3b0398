-- hermes-memory-pgvector, migration 001: tables, search columns and indexes.
--
-- Run it as an administrator of the database, in either way:
--     hermes-pgvector migrate --admin-dsn "dbname=hermes_memory user=postgres" [--runtime-role hermes] [--dims 768]
--     PGOPTIONS="-c hermes_pgvector.dims=768 -c hermes_pgvector.runtime_role=hermes" \
--         psql -d hermes_memory -v ON_ERROR_STOP=1 -f 001_schema.sql
--
-- Settings: hermes_pgvector.dims          floats in an embedding (1 to 2000, default 768)
--           hermes_pgvector.runtime_role  the role the agents log in as; when not set, `hermes` if it exists
-- Running it again changes nothing. Where it ends with "canceling statement due to lock timeout", run it again at once.

BEGIN;

-- Ten processes may start at once: one works, the others wait here and then find everything done.
SELECT pg_advisory_xact_lock(7310579462);
-- While it waits for a table everybody else waits behind it: rather it ends, and is run again.
SET LOCAL lock_timeout = '800ms';

DO $check$
DECLARE
    strange text;
BEGIN
    IF current_setting('server_version_num')::int < 150000 THEN
        RAISE EXCEPTION 'hermes-memory-pgvector needs Postgres 15 or newer, this is %', current_setting('server_version');
    END IF;
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'hermes-memory-pgvector needs a database with encoding UTF8, this one has %',
            current_setting('server_encoding')
            USING HINT = 'CREATE DATABASE hermes_memory ENCODING ''UTF8'' TEMPLATE template0';
    END IF;
    -- Only the command moves rows, and can put them back.
    IF EXISTS (SELECT FROM pg_class AS c
                WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relname IN ('memory_entries', 'conversations')
                  AND NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'tsv')) THEN
        RAISE EXCEPTION 'the tables memory_entries and conversations of this database are another program''s, as of the other hermes-memory-pgvector: to upgrade them with all rows, run instead: hermes-pgvector migrate --admin-dsn "dbname=% user=%"',
            current_database(), current_user;
    END IF;
    -- Below, what was left without its main table is dropped: nothing of anybody else.
    SELECT c.relname INTO strange FROM pg_class AS c
     WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relname IN ('memory_history', 'memory_chunks', 'conversation_chunks')
       AND NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'agent_identity') LIMIT 1;
    IF strange IS NOT NULL THEN
        RAISE EXCEPTION 'the table % of this database is another program''s: it has no column agent_identity', strange
            USING HINT = 'use another database, or rename that table';
    END IF;
END
$check$;

CREATE EXTENSION IF NOT EXISTS vector;

DO $check$
DECLARE
    installed text := (SELECT extversion FROM pg_extension WHERE extname = 'vector');
BEGIN
    IF string_to_array(regexp_replace(installed, '[^0-9.].*$', ''), '.')::int[] < ARRAY[0, 8] THEN
        RAISE EXCEPTION 'hermes-memory-pgvector needs pgvector 0.8 or newer, this is %', installed
            USING HINT = 'install a newer pgvector on the server, then: ALTER EXTENSION vector UPDATE';
    END IF;
END
$check$;

CREATE TABLE IF NOT EXISTS hermes_migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
-- Where somebody has dropped a main table all is made anew, and agents wait for the last file. Elsewhere a file that is run
-- again leaves functions and triggers that a later one has given another form: each `DO $once$` below and in the others.
DO $anew$
BEGIN
    IF to_regclass('memory_entries') IS NULL OR to_regclass('conversations') IS NULL THEN
        DELETE FROM hermes_migrations;
    END IF;
END
$anew$;

-- convert_to is only STABLE in the catalogue; in a UTF8 database it cannot change.
CREATE OR REPLACE FUNCTION hermes_digest(body text) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN sha256(convert_to(body, 'UTF8'));

-- The lexeme that stands for a theme inside a tsvector, so that one GIN look-up is theme and words at once.
CREATE OR REPLACE FUNCTION hermes_theme_lexeme(theme text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN '@' || left(encode(sha256(convert_to(theme, 'UTF8')), 'hex'), 16);

-- Words (stems of the text's language, accents folded), identifiers whole and in parts, emoji, and pairs of characters
-- where a script has no spaces. `language` is the name of a text search configuration of Postgres; an unknown one means
-- `simple`, which stems nothing. Nothing raises: of a text the first two million characters are indexed, and what does not
-- fit into the 1 MB of a tsvector is left out, piece by piece.
DO $once$
BEGIN
    IF NOT EXISTS (SELECT FROM hermes_migrations WHERE version = 1) THEN
        CREATE OR REPLACE FUNCTION hermes_lexemes(body text, language text DEFAULT 'english') RETURNS tsvector
            LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
        AS $lexemes$
        DECLARE
            -- Thai, Lao, Burmese, Khmer, Japanese, Chinese, Korean.
            spaceless constant text := '\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0002ffff';
            accents   constant text := '[\u0300-\u036f]';
            -- Pieces overlap, so that what one cut goes through is whole in the other.
            size      constant integer := 20000;
            overlap   constant integer := 200;
            last      constant integer := least(100, greatest(0, (length(body) - overlap - 1) / (size - overlap)));
            config    regconfig := 'pg_catalog.english';
            stems     boolean := false;
            block     text;
            raw       text;
            folded    text;
            found     tsvector;
            names     text;
            tokens    text[];
            total     tsvector := '';
        BEGIN
            IF language <> 'english' THEN
                config := coalesce((SELECT oid FROM pg_catalog.pg_ts_config
                                     WHERE cfgname = language AND cfgnamespace = 'pg_catalog'::regnamespace), 'pg_catalog.simple'::regconfig);
                stems := config <> 'pg_catalog.simple'::regconfig;
            END IF;
            FOR part IN 0..last LOOP
                IF part % 40 = 0 THEN
                    -- To cut one piece takes time by the length of what it is cut from.
                    block := substr(body, 1 + part * (size - overlap), 40 * (size - overlap) + overlap);
                END IF;
                raw := substr(block, 1 + part % 40 * (size - overlap), size);
                tokens := NULL;
                IF raw ~ '[^\x01-\x7f]' THEN
                    raw := left(normalize(raw, NFKC), 2 * size);
                    folded := normalize(regexp_replace(normalize(raw, NFKD), accents, '', 'g'), NFKC);
                    -- A stemmer and its stop words need the accents: the stems are folded, not the words.
                    IF stems THEN
                        found := normalize(regexp_replace(normalize(to_tsvector(config, raw)::text, NFKD), accents, '', 'g'), NFKC)::tsvector;
                    ELSE
                        found := to_tsvector(config, folded);
                    END IF;
                    IF folded ~ ('[' || spaceless || ']') THEN
                        -- Pairs at even places of each run, then at odd ones: linear, where a walk with substr would be quadratic.
                        SELECT array_agg(DISTINCT m[1]) INTO tokens FROM (
                            SELECT regexp_matches(folded, '([' || spaceless || ']{1,2})', 'g')
                            UNION ALL
                            SELECT regexp_matches(
                                regexp_replace(folded, '(^|[^' || spaceless || '])[' || spaceless || ']', '\1 ', 'g'),
                                '([' || spaceless || ']{1,2})', 'g')
                        ) AS runs(m);
                        found := found || array_to_tsvector(tokens);
                    END IF;
                    SELECT array_agg(DISTINCT m[1]) INTO tokens
                      FROM regexp_matches(folded, '([\u2600-\u27bf\U0001f300-\U0001faff])', 'g') AS m;
                    IF tokens IS NOT NULL THEN
                        found := found || array_to_tsvector(tokens);
                    END IF;
                ELSE
                    folded := raw;
                    found := to_tsvector(config, folded);
                END IF;
                SELECT string_agg(m[1], ' ') INTO names
                  FROM regexp_matches(
                           folded, '([[:alnum:]]+(?:[-_./:#@][[:alnum:]]+)+|[a-z0-9]+[A-Z][[:alnum:]]*|[[:alpha:]]+[0-9][[:alnum:]]*)', 'g') AS m;
                IF names IS NOT NULL THEN
                    names := lower(names || ' ' || regexp_replace(
                                 regexp_replace(names, '([a-z0-9])([A-Z])', '\1 \2', 'g'), '[^[:alnum:]]+', ' ', 'g'));
                    found := found || to_tsvector('pg_catalog.simple', names)
                                   || array_to_tsvector(ARRAY(
                                          SELECT DISTINCT left(word, 200) FROM string_to_table(names, ' ') AS word WHERE word <> ''));
                END IF;
                IF last = 0 THEN
                    RETURN found;
                END IF;
                found := strip(found);
                IF pg_column_size(total) + pg_column_size(found) < 1048000 THEN
                    total := total || found;
                END IF;
            END LOOP;
            RETURN total;
        END
        $lexemes$;
    END IF;
END
$once$;

CREATE OR REPLACE FUNCTION hermes_search_vector(theme text, body text, language text DEFAULT 'english') RETURNS tsvector
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN array_to_tsvector(ARRAY[hermes_theme_lexeme(theme)]) || hermes_lexemes(body, language);

-- What texts are compared by where a phrase is looked for: case, accents, kinds of quotes and of blanks do not matter.
CREATE OR REPLACE FUNCTION hermes_folded(body text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    -- The last three make one of up to eight blanks; translate or a regular expression would take four times as long.
    RETURN replace(replace(replace(replace(replace(replace(lower(
        CASE WHEN octet_length(body) = length(body) THEN body
             ELSE normalize(regexp_replace(normalize(translate(body, U&'\2018\2019\201c\201d', '''''""'), NFKD),
                                           '[\u0300-\u036f]', '', 'g'), NFKC) END),
        E'\n', ' '), E'\r', ' '), E'\t', ' '), '  ', ' '), '  ', ' '), '  ', ' ');

DO $tables$
DECLARE
    dims integer := coalesce(nullif(current_setting('hermes_pgvector.dims', true), ''), '768')::integer;
BEGIN
    IF dims NOT BETWEEN 1 AND 2000 THEN
        RAISE EXCEPTION 'hermes_pgvector.dims must be 1 to 2000, not %', dims;
    END IF;
    -- What belonged to rows whose table somebody has dropped would belong to others of the same number.
    IF to_regclass('memory_entries') IS NULL THEN
        EXECUTE format('DROP TABLE IF EXISTS %1$I.memory_chunks, %1$I.memory_history, %1$I.hermes_tombstones, %1$I.hermes_mirror',
                       current_schema());
    END IF;
    IF to_regclass('conversations') IS NULL THEN
        EXECUTE format('DROP TABLE IF EXISTS %1$I.conversation_chunks, %1$I.hermes_retention', current_schema());
    END IF;
    IF to_regclass('memory_entries') IS NULL AND to_regclass('conversations') IS NULL THEN
        EXECUTE format('DROP TABLE IF EXISTS %1$I.hermes_embedding, %1$I.hermes_reembed, %1$I.memory_chunks_next, '
                       '%1$I.conversation_chunks_next', current_schema());
    END IF;
    EXECUTE format($ddl$
        CREATE TABLE IF NOT EXISTS memory_entries (
            id             bigserial PRIMARY KEY,
            agent_identity text NOT NULL DEFAULT 'default',
            target         text NOT NULL CHECK (target IN ('memory', 'user')),
            content        text NOT NULL,
            embedding      vector(%1$s),
            created_at     timestamptz NOT NULL DEFAULT now(),
            updated_at     timestamptz NOT NULL DEFAULT now(),
            metadata       jsonb NOT NULL DEFAULT '{}'::jsonb,
            embed_after    timestamptz,
            text_language  text NOT NULL DEFAULT 'english',
            digest         bytea GENERATED ALWAYS AS (hermes_digest(content)) STORED,
            sig            bit(%1$s),
            tsv            tsvector GENERATED ALWAYS AS (hermes_search_vector(agent_identity, content, text_language)) STORED
        )$ddl$, dims);
    EXECUTE format($ddl$
        CREATE TABLE IF NOT EXISTS conversations (
            id             bigserial PRIMARY KEY,
            session_id     text NOT NULL,
            agent_identity text NOT NULL DEFAULT 'default',
            role           text NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
            content        text NOT NULL,
            ts             timestamptz NOT NULL DEFAULT now(),
            embedding      vector(%1$s),
            metadata       jsonb NOT NULL DEFAULT '{}'::jsonb,
            embed_after    timestamptz,
            text_language  text NOT NULL DEFAULT 'english',
            sig            bit(%1$s),
            tsv            tsvector GENERATED ALWAYS AS (hermes_search_vector(agent_identity, content, text_language)) STORED
        )$ddl$, dims);
    EXECUTE format($ddl$
        CREATE TABLE IF NOT EXISTS memory_chunks (
            row_id         bigint NOT NULL REFERENCES memory_entries ON DELETE CASCADE,
            part           integer NOT NULL CHECK (part > 0),
            agent_identity text NOT NULL,
            first_char     integer NOT NULL,
            embedding      vector(%1$s) NOT NULL,
            sig            bit(%1$s) NOT NULL,
            PRIMARY KEY (row_id, part, agent_identity)
        )$ddl$, dims);
    EXECUTE format($ddl$
        CREATE TABLE IF NOT EXISTS conversation_chunks (
            row_id         bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
            part           integer NOT NULL CHECK (part > 0),
            agent_identity text NOT NULL,
            first_char     integer NOT NULL,
            embedding      vector(%1$s),
            sig            bit(%1$s) NOT NULL,
            PRIMARY KEY (row_id, part, agent_identity)
        )$ddl$, dims);
END
$tables$;

COMMENT ON TABLE memory_chunks IS 'the second and following parts of long memories; the first one is the row''s own embedding';
COMMENT ON TABLE conversation_chunks IS 'the second and following parts of long turns; the first one is the row''s own embedding';

-- The signature follows the embedding, and a text that was changed without its embedding waits for a new one. By triggers,
-- for to add a generated column rewrites the table, and a change of the model adds one. None of them is BEFORE UPDATE: with
-- such a one every update of a row would compute all its lexemes anew.
DO $once$
BEGIN
    IF NOT EXISTS (SELECT FROM hermes_migrations WHERE version = 1) THEN
        CREATE OR REPLACE FUNCTION hermes_keep_vectors() RETURNS trigger
            LANGUAGE plpgsql
        AS $keep$
        BEGIN
            IF TG_OP = 'INSERT' THEN
                NEW.sig := binary_quantize(NEW.embedding);
                RETURN NEW;
            END IF;
            -- `compact` drops vectors and keeps their signatures; whoever else sets a vector to NULL wants a new one.
            IF NEW.embedding IS NULL AND current_setting('hermes_pgvector.keep_sig', true) = 'on' THEN
                RETURN NULL;
            END IF;
            -- Our own statements set both; somebody has set one by hand.
            EXECUTE format('UPDATE %I.%I SET sig = binary_quantize(embedding) WHERE id = $1', TG_TABLE_SCHEMA, TG_TABLE_NAME) USING NEW.id;
            RETURN NULL;
        END
        $keep$;

        CREATE OR REPLACE FUNCTION hermes_keep_chunks() RETURNS trigger
            LANGUAGE plpgsql
        AS $keep$
        BEGIN
            IF NEW.content IS DISTINCT FROM OLD.content THEN
                EXECUTE format('DELETE FROM %I.%I WHERE row_id = $1', TG_TABLE_SCHEMA, TG_ARGV[0]) USING OLD.id;
                IF NEW.sig IS NOT NULL AND (NEW.embedding IS NULL OR NEW.embedding IS NOT DISTINCT FROM OLD.embedding) THEN
                    EXECUTE format('UPDATE %I.%I SET embedding = NULL, sig = NULL, embed_after = NULL WHERE id = $1',
                                   TG_TABLE_SCHEMA, TG_TABLE_NAME) USING NEW.id;
                END IF;
            ELSE
                EXECUTE format('UPDATE %I.%I SET agent_identity = $2 WHERE row_id = $1', TG_TABLE_SCHEMA, TG_ARGV[0])
                    USING OLD.id, NEW.agent_identity;
            END IF;
            RETURN NULL;
        END
        $keep$;

        CREATE OR REPLACE TRIGGER hermes_keep_vectors BEFORE INSERT ON memory_entries
            FOR EACH ROW EXECUTE FUNCTION hermes_keep_vectors();
        CREATE OR REPLACE TRIGGER hermes_keep_vectors BEFORE INSERT ON conversations
            FOR EACH ROW EXECUTE FUNCTION hermes_keep_vectors();
        CREATE OR REPLACE TRIGGER hermes_keep_sig AFTER UPDATE OF embedding ON memory_entries
            FOR EACH ROW WHEN (NEW.sig IS DISTINCT FROM binary_quantize(NEW.embedding)) EXECUTE FUNCTION hermes_keep_vectors();
        CREATE OR REPLACE TRIGGER hermes_keep_sig AFTER UPDATE OF embedding ON conversations
            FOR EACH ROW WHEN (NEW.sig IS DISTINCT FROM binary_quantize(NEW.embedding)) EXECUTE FUNCTION hermes_keep_vectors();
    END IF;
END
$once$;
CREATE OR REPLACE TRIGGER hermes_keep_chunks AFTER UPDATE OF content, agent_identity ON memory_entries
    FOR EACH ROW WHEN (NEW.content IS DISTINCT FROM OLD.content OR NEW.agent_identity IS DISTINCT FROM OLD.agent_identity)
    EXECUTE FUNCTION hermes_keep_chunks('memory_chunks');
CREATE OR REPLACE TRIGGER hermes_keep_chunks AFTER UPDATE OF content, agent_identity ON conversations
    FOR EACH ROW WHEN (NEW.content IS DISTINCT FROM OLD.content OR NEW.agent_identity IS DISTINCT FROM OLD.agent_identity)
    EXECUTE FUNCTION hermes_keep_chunks('conversation_chunks');

COMMENT ON COLUMN memory_entries.agent_identity IS 'the theme this memory belongs to';
COMMENT ON COLUMN memory_entries.embed_after IS 'while embedding and sig are null: not to be embedded before this time (lease and back-off)';
COMMENT ON COLUMN memory_entries.text_language IS 'the text search configuration whose stems tsv holds';
COMMENT ON COLUMN conversations.agent_identity IS 'the theme this turn belongs to';
COMMENT ON COLUMN conversations.embed_after IS 'while embedding and sig are null: not to be embedded before this time (lease and back-off)';
COMMENT ON COLUMN conversations.sig IS 'the signs of the embedding; alone where `compact` has dropped the embedding of an old turn';
COMMENT ON COLUMN conversations.text_language IS 'the text search configuration whose stems tsv holds';

-- The text itself cannot be a btree key: it may be longer than the 2.7 KB such a key holds.
CREATE UNIQUE INDEX IF NOT EXISTS memory_entries_theme_digest_key ON memory_entries (agent_identity, target, digest);
CREATE INDEX IF NOT EXISTS memory_entries_theme_sig_idx ON memory_entries (agent_identity) INCLUDE (sig, id);
CREATE INDEX IF NOT EXISTS memory_entries_theme_time_idx ON memory_entries (agent_identity, created_at DESC);
CREATE INDEX IF NOT EXISTS memory_entries_tsv_idx ON memory_entries USING gin (tsv);
CREATE INDEX IF NOT EXISTS memory_entries_pending_idx ON memory_entries (id) WHERE embedding IS NULL AND sig IS NULL;

CREATE INDEX IF NOT EXISTS conversations_theme_sig_idx ON conversations (agent_identity) INCLUDE (sig, id);
CREATE INDEX IF NOT EXISTS conversations_theme_time_idx ON conversations (agent_identity, ts DESC);
CREATE INDEX IF NOT EXISTS conversations_session_time_idx ON conversations (session_id, ts, id);
CREATE INDEX IF NOT EXISTS conversations_tsv_idx ON conversations USING gin (tsv);
-- Eight bytes of the digest find a text that was embedded before; the row tells whether it is the same.
CREATE INDEX IF NOT EXISTS conversations_digest_idx ON conversations (substr(hermes_digest(content), 1, 8));
CREATE INDEX IF NOT EXISTS conversations_pending_idx ON conversations (id) WHERE embedding IS NULL AND sig IS NULL;
-- Turns that `compact` has left their signature only: they are in no graph.
CREATE INDEX IF NOT EXISTS conversations_cold_idx ON conversations (id) INCLUDE (sig, role, ts)
    WHERE embedding IS NULL AND sig IS NOT NULL;
-- Only where there are no rows yet. Building these for a filled table may take an hour, in which nobody could write:
-- `migrate` and `hermes-pgvector index build` do it with CREATE INDEX CONCURRENTLY.
DO $graphs$
BEGIN
    IF NOT EXISTS (SELECT FROM memory_entries) THEN
        CREATE INDEX IF NOT EXISTS memory_entries_embedding_idx ON memory_entries
            USING hnsw (embedding vector_cosine_ops) WITH (m = 16, ef_construction = 64);
    END IF;
    IF NOT EXISTS (SELECT FROM conversations) THEN
        CREATE INDEX IF NOT EXISTS conversations_embedding_idx ON conversations
            USING hnsw (embedding vector_cosine_ops) WITH (m = 16, ef_construction = 64);
    END IF;
END
$graphs$;

CREATE INDEX IF NOT EXISTS memory_chunks_theme_sig_idx ON memory_chunks (agent_identity) INCLUDE (sig, row_id, part);
CREATE INDEX IF NOT EXISTS conversation_chunks_theme_sig_idx ON conversation_chunks (agent_identity) INCLUDE (sig, row_id, part);

-- Index-only scans of fresh rows need the visibility map: vacuum after inserts, not only after updates.
ALTER TABLE memory_entries SET (autovacuum_vacuum_insert_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0.02);
ALTER TABLE conversations SET (autovacuum_vacuum_insert_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0.02);
ALTER TABLE memory_chunks SET (autovacuum_vacuum_insert_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0.02);
ALTER TABLE conversation_chunks SET (autovacuum_vacuum_insert_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0.02);

-- One row an operation that was applied: a replay after a crash finds its id and changes nothing.
CREATE TABLE IF NOT EXISTS hermes_operations (
    agent_identity text NOT NULL,
    op_id          uuid NOT NULL,
    applied_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (agent_identity, op_id)
);
CREATE INDEX IF NOT EXISTS hermes_operations_time_idx ON hermes_operations (applied_at);

-- What was removed, by digest: another host's stale copy of the file must not bring it back.
CREATE TABLE IF NOT EXISTS hermes_tombstones (
    agent_identity text NOT NULL,
    target         text NOT NULL,
    digest         bytea NOT NULL,
    removed_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (agent_identity, target, digest)
);
CREATE INDEX IF NOT EXISTS hermes_tombstones_time_idx ON hermes_tombstones (removed_at);

-- What each host's MEMORY.md and USER.md held when they were last read, and which theme owns each entry.
CREATE TABLE IF NOT EXISTS hermes_mirror (
    agent_identity text NOT NULL,
    origin         text NOT NULL,
    target         text NOT NULL,
    digest         bytea NOT NULL,
    announced      boolean NOT NULL,
    noted_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (agent_identity, origin, target, digest)
);
CREATE INDEX IF NOT EXISTS hermes_mirror_origin_idx ON hermes_mirror (origin, target);
COMMENT ON COLUMN hermes_mirror.announced IS 'true: the host told us who wrote it; false: found in the file';
COMMENT ON COLUMN hermes_mirror.noted_at IS 'a reading of the file from before this time says nothing about the entry';

-- What happened to each memory, kept by triggers: no way to the table goes past them. Of what was replaced the text is kept
-- until the memory is removed; of what was removed no text at all.
CREATE TABLE IF NOT EXISTS memory_history (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent_identity text NOT NULL,
    memory_id      bigint NOT NULL,
    target         text NOT NULL,
    action         text NOT NULL CHECK (action IN ('added', 'replaced', 'moved', 'removed')),
    at             timestamptz NOT NULL DEFAULT now(),
    db_role        text NOT NULL DEFAULT session_user,
    who            jsonb NOT NULL,
    chars          integer NOT NULL,
    digest         bytea NOT NULL,
    old_theme      text,
    old_chars      integer,
    old_digest     bytea,
    old_content    text
);
COMMENT ON COLUMN memory_history.digest IS 'the first 8 bytes of the text''s sha256';
COMMENT ON COLUMN memory_history.old_content IS 'what stood there before; NULL once the memory, or that text, was removed';
CREATE INDEX IF NOT EXISTS memory_history_theme_time_idx ON memory_history (agent_identity, at DESC, id DESC);
CREATE INDEX IF NOT EXISTS memory_history_memory_idx ON memory_history (memory_id);
CREATE INDEX IF NOT EXISTS memory_history_time_idx ON memory_history (at);
CREATE INDEX IF NOT EXISTS memory_history_text_idx ON memory_history (agent_identity, old_digest) WHERE old_content IS NOT NULL;

-- Who did it stands in hermes_pgvector.who, set for the transaction; where it is not set, a new row says itself where it comes
-- from. Without sequential scans: one transaction may remove a theme that was loaded just now, before there are statistics.
DO $once$
BEGIN
    IF to_regprocedure('hermes_note_memory()') IS NULL THEN
        CREATE FUNCTION hermes_note_memory() RETURNS trigger
            LANGUAGE plpgsql
            SET search_path FROM CURRENT
            SET enable_seqscan = off
        AS $note$
        DECLARE
            actor jsonb := coalesce(nullif(current_setting('hermes_pgvector.who', true), ''), '{}')::jsonb;
        BEGIN
            IF TG_OP = 'INSERT' THEN
                IF actor = '{}' THEN
                    actor := jsonb_strip_nulls(jsonb_build_object(
                        'source', NEW.metadata -> 'source', 'session_id', NEW.metadata -> 'session_id',
                        'profile', NEW.metadata -> 'profile', 'platform', NEW.metadata -> 'platform',
                        'user', NEW.metadata -> 'user', 'chat', NEW.metadata -> 'chat'));
                END IF;
                INSERT INTO memory_history (agent_identity, memory_id, target, action, who, chars, digest)
                VALUES (NEW.agent_identity, NEW.id, NEW.target, 'added', actor, length(NEW.content), substr(NEW.digest, 1, 8));
            ELSIF TG_OP = 'UPDATE' THEN
                IF NEW.agent_identity <> OLD.agent_identity THEN
                    UPDATE memory_history SET agent_identity = NEW.agent_identity
                     WHERE memory_id = OLD.id AND agent_identity = OLD.agent_identity;
                    INSERT INTO memory_history (agent_identity, memory_id, target, action, who, chars, digest, old_theme)
                    VALUES (NEW.agent_identity, NEW.id, NEW.target, 'moved', actor, length(NEW.content), substr(NEW.digest, 1, 8),
                            OLD.agent_identity);
                END IF;
                IF NEW.content <> OLD.content THEN
                    INSERT INTO memory_history (agent_identity, memory_id, target, action, who, chars, digest,
                                                old_chars, old_digest, old_content)
                    VALUES (NEW.agent_identity, NEW.id, NEW.target, 'replaced', actor, length(NEW.content), substr(NEW.digest, 1, 8),
                            length(OLD.content), substr(OLD.digest, 1, 8), OLD.content);
                END IF;
            ELSIF TG_OP = 'DELETE' THEN
                UPDATE memory_history SET old_content = NULL WHERE memory_id = OLD.id AND old_content IS NOT NULL;
                -- The same words may also be what another memory of the theme once said.
                UPDATE memory_history SET old_content = NULL
                 WHERE agent_identity = OLD.agent_identity AND old_digest = substr(OLD.digest, 1, 8) AND old_content IS NOT NULL;
                INSERT INTO memory_history (agent_identity, memory_id, target, action, who, chars, digest)
                VALUES (OLD.agent_identity, OLD.id, OLD.target, 'removed', actor, length(OLD.content), substr(OLD.digest, 1, 8));
            ELSE
                UPDATE memory_history SET old_content = NULL WHERE old_content IS NOT NULL;
            END IF;
            RETURN NULL;
        END
        $note$;
    END IF;
END
$once$;

CREATE OR REPLACE TRIGGER hermes_note_memory AFTER INSERT OR DELETE ON memory_entries
    FOR EACH ROW EXECUTE FUNCTION hermes_note_memory();
CREATE OR REPLACE TRIGGER hermes_note_change AFTER UPDATE OF content, agent_identity ON memory_entries
    FOR EACH ROW WHEN (NEW.content IS DISTINCT FROM OLD.content OR NEW.agent_identity IS DISTINCT FROM OLD.agent_identity)
    EXECUTE FUNCTION hermes_note_memory();
CREATE OR REPLACE TRIGGER hermes_note_truncate AFTER TRUNCATE ON memory_entries
    FOR EACH STATEMENT EXECUTE FUNCTION hermes_note_memory();

-- What ANALYZE gathers of a column are samples of it, and they would outlive the rows. No statement of ours needs them.
ALTER TABLE memory_entries ALTER COLUMN content SET STATISTICS 0, ALTER COLUMN metadata SET STATISTICS 0,
    ALTER COLUMN tsv SET STATISTICS 0;
ALTER TABLE conversations ALTER COLUMN content SET STATISTICS 0, ALTER COLUMN metadata SET STATISTICS 0,
    ALTER COLUMN tsv SET STATISTICS 0;
ALTER TABLE memory_history ALTER COLUMN old_content SET STATISTICS 0, ALTER COLUMN who SET STATISTICS 0;

-- How far the deletion of old turns is in each theme that has some. Times are the server's.
CREATE TABLE IF NOT EXISTS hermes_retention (
    agent_identity text PRIMARY KEY,
    policy         text NOT NULL,
    announced_at   timestamptz NOT NULL DEFAULT now(),
    begun_at       timestamptz,
    ended_at       timestamptz,
    deleted        bigint NOT NULL DEFAULT 0,
    held_by        uuid,
    held_until     timestamptz
);
COMMENT ON COLUMN hermes_retention.policy IS 'how long turns are kept here, as the agents'' setting says';
COMMENT ON COLUMN hermes_retention.announced_at IS 'since when it has said so: nothing is deleted before a day has passed';
COMMENT ON COLUMN hermes_retention.deleted IS 'turns that the current or the last run has deleted';
COMMENT ON COLUMN hermes_retention.held_by IS 'the process that is at it, until held_until';

-- What operators did to whole themes. The agents' role may add to it and read it, and change nothing of it.
CREATE TABLE IF NOT EXISTS hermes_maintenance (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    done_at   timestamptz NOT NULL DEFAULT now(),
    db_role   text NOT NULL DEFAULT session_user,
    os_user   text NOT NULL,
    host      text NOT NULL,
    verb      text NOT NULL,
    arguments jsonb NOT NULL,
    counts    jsonb NOT NULL
);

-- The one model whose vectors the tables hold; it is set by the first embedding and changed by `reembed`.
CREATE TABLE IF NOT EXISTS hermes_embedding (
    only_row        boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    model           text,
    document_prefix text NOT NULL DEFAULT '',
    query_prefix    text NOT NULL DEFAULT '',
    normalized      boolean NOT NULL DEFAULT true,
    sig_slope       float8 NOT NULL DEFAULT 1,
    sig_offset      float8 NOT NULL DEFAULT 0,
    recorded_at     timestamptz NOT NULL DEFAULT now()
);
COMMENT ON COLUMN hermes_embedding.document_prefix IS 'what is put before a stored text when it is embedded';
COMMENT ON COLUMN hermes_embedding.query_prefix IS 'what is put before a question when it is embedded';
COMMENT ON COLUMN hermes_embedding.sig_slope IS 'similarity by signatures alone: sig_offset + sig_slope * cos(pi * share of differing bits)';
INSERT INTO hermes_embedding DEFAULT VALUES ON CONFLICT DO NOTHING;

DO $grants$
DECLARE
    wanted  text := nullif(current_setting('hermes_pgvector.runtime_role', true), '');
    runtime text := coalesce(wanted, 'hermes');
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = runtime) THEN
        IF wanted IS NOT NULL THEN
            RAISE EXCEPTION 'the runtime role "%" does not exist', wanted
                USING HINT = format('create it first: CREATE ROLE %I LOGIN PASSWORD ''...''', wanted);
        END IF;
        RAISE NOTICE 'no role "hermes": nothing was granted; name the runtime role to grant its rights';
        RETURN;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), runtime);
    EXECUTE format('GRANT SELECT ON hermes_migrations TO %I', runtime);
    EXECUTE format('GRANT SELECT, UPDATE ON hermes_embedding TO %I', runtime);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON memory_entries, conversations, memory_chunks, '
                   'conversation_chunks, hermes_operations, '
                   'hermes_tombstones, hermes_mirror, hermes_retention TO %I', runtime);
    -- Not the columns that say when and by which role; of what happened only the theme and the old text may be changed.
    EXECUTE format('GRANT SELECT, DELETE, UPDATE (agent_identity, old_content), '
                   'INSERT (agent_identity, memory_id, target, action, who, chars, digest, old_theme, old_chars, old_digest, '
                   'old_content) ON memory_history TO %I', runtime);
    EXECUTE format('GRANT SELECT, INSERT (os_user, host, verb, arguments, counts) ON hermes_maintenance TO %I', runtime);
    EXECUTE format('GRANT USAGE ON SEQUENCE memory_entries_id_seq, conversations_id_seq TO %I', runtime);
END
$grants$;

INSERT INTO hermes_migrations (version, name, checksum)
VALUES (1, 'schema', '6388e29597cce74aa94dddc105c09ecb5c10841898fe0930355e968865e9d59c')
ON CONFLICT (version) DO NOTHING;

COMMIT;
