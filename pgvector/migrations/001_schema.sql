-- hermes-memory-pgvector, migration 001: tables, search columns and indexes.
--
-- Run it as an administrator of the database, in either way:
--     hermes-pgvector migrate --admin-dsn "dbname=hermes_memory user=postgres" [--runtime-role hermes] [--dims 768]
--     PGOPTIONS="-c hermes_pgvector.dims=768 -c hermes_pgvector.runtime_role=hermes" psql -d hermes_memory -f 001_schema.sql
--
-- Settings: hermes_pgvector.dims          floats in an embedding (1 to 2000, default 768)
--           hermes_pgvector.runtime_role  the role the agents log in as; when not set, `hermes` if it exists
-- Running it again changes nothing.

BEGIN;

-- Ten processes may start at once: one works, the others wait here and then find everything done.
SELECT pg_advisory_xact_lock(7310579462);

DO $check$
BEGIN
    IF current_setting('server_version_num')::int < 150000 THEN
        RAISE EXCEPTION 'hermes-memory-pgvector needs Postgres 15 or newer, this is %', current_setting('server_version');
    END IF;
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'hermes-memory-pgvector needs a database with encoding UTF8, this one has %',
            current_setting('server_encoding')
            USING HINT = 'CREATE DATABASE hermes_memory ENCODING ''UTF8'' TEMPLATE template0';
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

-- convert_to is only STABLE in the catalogue; in a UTF8 database it cannot change.
CREATE OR REPLACE FUNCTION hermes_digest(body text) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN sha256(convert_to(body, 'UTF8'));

-- The lexeme that stands for a theme inside a tsvector, so that one GIN look-up is theme and words at once.
CREATE OR REPLACE FUNCTION hermes_theme_lexeme(theme text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN '@' || left(encode(sha256(convert_to(theme, 'UTF8')), 'hex'), 16);

-- Words (English stems, accents folded), identifiers whole and in parts, and CJK text in pairs of characters.
-- A tsvector holds at most 1 MB: beyond 60,000 characters the text is stored but not indexed by word.
CREATE OR REPLACE FUNCTION hermes_lexemes(body text) RETURNS tsvector
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $lexemes$
DECLARE
    raw    text := left(body, 60000);
    folded text;
    found  tsvector;
    names  text;
    pairs  text[];
BEGIN
    IF raw ~ '[^\x01-\x7f]' THEN
        folded := normalize(regexp_replace(normalize(raw, NFKD), '[\u0300-\u036f]', '', 'g'), NFKC);
    ELSE
        folded := raw;
    END IF;
    found := to_tsvector('pg_catalog.english', folded);
    SELECT string_agg(
               lower(m[1]) || ' ' ||
               regexp_replace(regexp_replace(m[1], '([a-z0-9])([A-Z])', '\1 \2', 'g'), '[^[:alnum:]]+', ' ', 'g'),
               ' ')
      INTO names
      FROM regexp_matches(
               folded, '([[:alnum:]]+(?:[-_./:#@][[:alnum:]]+)+|[a-z0-9]+[A-Z][[:alnum:]]*|[[:alpha:]]+[0-9][[:alnum:]]*)', 'g') AS m;
    IF names IS NOT NULL THEN
        found := found || to_tsvector('pg_catalog.simple', names)
                       || array_to_tsvector(ARRAY(
                              SELECT DISTINCT left(lower(word), 200)
                                FROM regexp_split_to_table(names, '\s+') AS word WHERE word <> ''));
    END IF;
    IF folded ~ '[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]' THEN
        -- Pairs at even places of each run, then at odd ones: linear, where a walk with substr would be quadratic.
        SELECT array_agg(DISTINCT m[1]) INTO pairs FROM (
            SELECT regexp_matches(folded, '([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]{1,2})', 'g')
            UNION ALL
            SELECT regexp_matches(
                regexp_replace(folded, '(^|[^\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af])[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]', '\1 ', 'g'),
                '([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]{2})', 'g')
        ) AS runs(m);
        IF pairs IS NOT NULL THEN
            found := found || array_to_tsvector(pairs);
        END IF;
    END IF;
    RETURN found;
END
$lexemes$;

CREATE OR REPLACE FUNCTION hermes_search_vector(theme text, body text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN array_to_tsvector(ARRAY[hermes_theme_lexeme(theme)]) || hermes_lexemes(body);

DO $tables$
DECLARE
    dims integer := coalesce(nullif(current_setting('hermes_pgvector.dims', true), ''), '768')::integer;
BEGIN
    IF dims NOT BETWEEN 1 AND 2000 THEN
        RAISE EXCEPTION 'hermes_pgvector.dims must be 1 to 2000, not %', dims;
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
            digest         bytea GENERATED ALWAYS AS (hermes_digest(content)) STORED,
            sig            bit(%1$s) GENERATED ALWAYS AS (binary_quantize(embedding)::bit(%1$s)) STORED,
            tsv            tsvector GENERATED ALWAYS AS (hermes_search_vector(agent_identity, content)) STORED
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
            sig            bit(%1$s) GENERATED ALWAYS AS (binary_quantize(embedding)::bit(%1$s)) STORED,
            tsv            tsvector GENERATED ALWAYS AS (hermes_search_vector(agent_identity, content)) STORED
        )$ddl$, dims);
END
$tables$;

COMMENT ON COLUMN memory_entries.agent_identity IS 'the theme this memory belongs to';
COMMENT ON COLUMN memory_entries.embed_after IS 'while embedding is null: not to be embedded before this time (lease and back-off)';
COMMENT ON COLUMN conversations.agent_identity IS 'the theme this turn belongs to';
COMMENT ON COLUMN conversations.embed_after IS 'while embedding is null: not to be embedded before this time (lease and back-off)';

-- The text itself cannot be a btree key: it may be longer than the 2.7 KB such a key holds.
CREATE UNIQUE INDEX IF NOT EXISTS memory_entries_theme_digest_key ON memory_entries (agent_identity, target, digest);
CREATE INDEX IF NOT EXISTS memory_entries_theme_sig_idx ON memory_entries (agent_identity) INCLUDE (sig, id);
CREATE INDEX IF NOT EXISTS memory_entries_theme_time_idx ON memory_entries (agent_identity, created_at DESC);
CREATE INDEX IF NOT EXISTS memory_entries_tsv_idx ON memory_entries USING gin (tsv);
CREATE INDEX IF NOT EXISTS memory_entries_pending_idx ON memory_entries (id) WHERE embedding IS NULL;
CREATE INDEX IF NOT EXISTS memory_entries_embedding_idx ON memory_entries
    USING hnsw (embedding vector_cosine_ops) WITH (m = 16, ef_construction = 64);

CREATE INDEX IF NOT EXISTS conversations_theme_sig_idx ON conversations (agent_identity) INCLUDE (sig, id);
CREATE INDEX IF NOT EXISTS conversations_theme_time_idx ON conversations (agent_identity, ts DESC);
CREATE INDEX IF NOT EXISTS conversations_session_time_idx ON conversations (session_id, ts, id);
CREATE INDEX IF NOT EXISTS conversations_tsv_idx ON conversations USING gin (tsv);
CREATE INDEX IF NOT EXISTS conversations_pending_idx ON conversations (id) WHERE embedding IS NULL;
CREATE INDEX IF NOT EXISTS conversations_embedding_idx ON conversations
    USING hnsw (embedding vector_cosine_ops) WITH (m = 16, ef_construction = 64);

-- Index-only scans of fresh rows need the visibility map: vacuum after inserts, not only after updates.
ALTER TABLE memory_entries SET (autovacuum_vacuum_insert_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0.02);
ALTER TABLE conversations SET (autovacuum_vacuum_insert_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0.02);

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

-- The one model whose vectors the tables hold; its name is set by the first embedding.
CREATE TABLE IF NOT EXISTS hermes_embedding (
    only_row    boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    model       text,
    recorded_at timestamptz NOT NULL DEFAULT now()
);
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
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON memory_entries, conversations, hermes_operations, '
                   'hermes_tombstones, hermes_mirror TO %I', runtime);
    EXECUTE format('GRANT USAGE ON SEQUENCE memory_entries_id_seq, conversations_id_seq TO %I', runtime);
END
$grants$;

INSERT INTO hermes_migrations (version, name, checksum)
VALUES (1, 'schema', '5470fbe2bf6c6c46fbae9387af0e2de93c7c1f217d0db7d655327c2e5f4df302')
ON CONFLICT (version) DO NOTHING;

COMMIT;
