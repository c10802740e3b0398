-- hermes-memory-pgvector, migration 005: every key holds the theme, so that tables can be spread over machines by it, and a
-- theme is renamed or merged by writing its rows anew instead of changing their theme.
--
-- Numbers stay unique by their sequence, as before. They come first in the keys: one index finds a row with and without its
-- theme.
--
-- Run it after 003_owners_and_parts.sql, in the same ways. Running it again changes nothing. `hermes-pgvector migrate` builds
-- the new keys' indexes beside agents that write. With psql they are built while nobody can write, unless these come first,
-- each in a transaction of its own:
--     CREATE UNIQUE INDEX CONCURRENTLY memory_entries_theme_key ON memory_entries (id, agent_identity);
--     CREATE UNIQUE INDEX CONCURRENTLY conversations_theme_key ON conversations (id, agent_identity);
--     CREATE UNIQUE INDEX CONCURRENTLY memory_history_theme_key ON memory_history (id, agent_identity);
-- To put them into place takes milliseconds. It waits for a table at most 0.8 s, in which everybody else waits as well: when
-- it ends with "canceling statement due to lock timeout", nothing was changed, and it may be run again at once.

BEGIN;

SELECT pg_advisory_xact_lock(7310579462);
SET LOCAL lock_timeout = '800ms';

DO $keys$
DECLARE
    each  text;
    key   name;
    built name;
BEGIN
    FOREACH each IN ARRAY ARRAY['memory_entries', 'conversations', 'memory_history'] LOOP
        key := (SELECT conname FROM pg_constraint
                 WHERE conrelid = each::regclass AND contype = 'p' AND cardinality(conkey) = 1);
        CONTINUE WHEN key IS NULL;
        built := each || '_theme_key';
        -- What a build that was stopped has left.
        IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(quote_ident(built)) AND NOT indisvalid) THEN
            EXECUTE format('DROP INDEX %I', built);
        END IF;
        EXECUTE format('CREATE UNIQUE INDEX IF NOT EXISTS %I ON %I (id, agent_identity)', built, each);
        EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I, ADD CONSTRAINT %I PRIMARY KEY USING INDEX %I', each, key, key, built);
    END LOOP;
END
$keys$;

-- A row that moves is written anew as it was: hermes_pgvector.moved_from, set for the transaction, names the theme it comes
-- from. It may have a signature and no vector.
CREATE OR REPLACE TRIGGER hermes_keep_vectors BEFORE INSERT ON memory_entries
    FOR EACH ROW WHEN (coalesce(current_setting('hermes_pgvector.moved_from', true), '') = '')
    EXECUTE FUNCTION hermes_keep_vectors();
CREATE OR REPLACE TRIGGER hermes_keep_vectors BEFORE INSERT ON conversations
    FOR EACH ROW WHEN (coalesce(current_setting('hermes_pgvector.moved_from', true), '') = '')
    EXECUTE FUNCTION hermes_keep_vectors();
CREATE OR REPLACE TRIGGER hermes_keep_vectors BEFORE INSERT ON memory_chunks
    FOR EACH ROW WHEN (coalesce(current_setting('hermes_pgvector.moved_from', true), '') = '')
    EXECUTE FUNCTION hermes_keep_vectors();
CREATE OR REPLACE TRIGGER hermes_keep_vectors BEFORE INSERT ON conversation_chunks
    FOR EACH ROW WHEN (coalesce(current_setting('hermes_pgvector.moved_from', true), '') = '')
    EXECUTE FUNCTION hermes_keep_vectors();

-- As in 002, but a memory that moves was neither added nor removed.
DO $once$
BEGIN
    IF NOT EXISTS (SELECT FROM hermes_migrations WHERE version = 5) THEN
        CREATE OR REPLACE FUNCTION hermes_note_memory() RETURNS trigger
            LANGUAGE plpgsql
            SET search_path FROM CURRENT
            SET enable_seqscan = off
        AS $note$
        DECLARE
            actor jsonb := coalesce(nullif(current_setting('hermes_pgvector.who', true), ''), '{}')::jsonb;
            moved text := nullif(current_setting('hermes_pgvector.moved_from', true), '');
            short bytea;
        BEGIN
            IF TG_OP = 'INSERT' THEN
                IF actor = '{}' THEN
                    actor := jsonb_strip_nulls(jsonb_build_object(
                        'source', NEW.metadata -> 'source', 'session_id', NEW.metadata -> 'session_id',
                        'profile', NEW.metadata -> 'profile', 'platform', NEW.metadata -> 'platform',
                        'user', NEW.metadata -> 'user', 'chat', NEW.metadata -> 'chat'));
                END IF;
                INSERT INTO memory_history (agent_identity, memory_id, target, action, who, chars, digest, old_theme)
                VALUES (NEW.agent_identity, NEW.id, NEW.target, CASE WHEN moved IS NULL THEN 'added' ELSE 'moved' END, actor,
                        length(NEW.content), substr(NEW.digest, 1, 8), moved);
            ELSIF TG_OP = 'UPDATE' THEN
                -- Ours never change a row's theme; somebody does it by hand.
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
                IF moved = OLD.agent_identity THEN
                    RETURN NULL;
                END IF;
                short := substr(OLD.digest, 1, 8);
                IF current_setting('hermes_pgvector.keep_removed', true) = 'on' THEN
                    -- The digest once more as an old one: who forgets the same words later means these as well.
                    INSERT INTO memory_history (agent_identity, memory_id, target, action, who, chars, digest,
                                                old_digest, old_content, old_row)
                    VALUES (OLD.agent_identity, OLD.id, OLD.target, 'removed', actor, length(OLD.content), short, short, OLD.content,
                            jsonb_build_object('created_at', OLD.created_at, 'updated_at', OLD.updated_at, 'metadata', OLD.metadata,
                                               'text_language', OLD.text_language,
                                               'origin', coalesce(current_setting('hermes_pgvector.origin', true), '')));
                    RETURN NULL;
                END IF;
                UPDATE memory_history SET old_content = NULL, old_row = NULL
                 WHERE agent_identity = OLD.agent_identity AND memory_id = OLD.id AND old_content IS NOT NULL;
                -- The same words may also be what another memory of the theme once said.
                UPDATE memory_history SET old_content = NULL, old_row = NULL
                 WHERE agent_identity = OLD.agent_identity AND old_digest = short AND old_content IS NOT NULL;
                INSERT INTO memory_history (agent_identity, memory_id, target, action, who, chars, digest)
                VALUES (OLD.agent_identity, OLD.id, OLD.target, 'removed', actor, length(OLD.content), short);
            ELSE
                UPDATE memory_history SET old_content = NULL, old_row = NULL WHERE old_content IS NOT NULL;
            END IF;
            RETURN NULL;
        END
        $note$;
    END IF;
END
$once$;

-- As in 003, of the row's own theme only: a row that moves leaves its parts in the new one.
CREATE OR REPLACE FUNCTION hermes_drop_chunks() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
AS $drop$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        EXECUTE format('DELETE FROM %I.%I', TG_TABLE_SCHEMA, TG_ARGV[0]);
    ELSE
        EXECUTE format('DELETE FROM %I.%I WHERE agent_identity = $1 AND row_id = $2', TG_TABLE_SCHEMA, TG_ARGV[0])
            USING OLD.agent_identity, OLD.id;
    END IF;
    RETURN NULL;
END
$drop$;

-- Gives the history of a theme to another theme, as it is: whoever may give events another theme may do that, without the
-- right to write when something happened and who did it. `caller` is the current role, as for hermes_themes_of.
CREATE OR REPLACE FUNCTION hermes_move_history(theme text, destination text, caller name) RETURNS bigint
    LANGUAGE plpgsql STRICT SECURITY DEFINER
AS $move$
DECLARE
    columns text := (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
                      WHERE attrelid = 'memory_history'::regclass AND attnum > 0 AND NOT attisdropped
                        AND attgenerated = '' AND attname <> 'agent_identity');
    own     text[] := '{*}';
    moved   bigint;
BEGIN
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = 'memory_history'::regclass) THEN
        EXECUTE 'SELECT hermes_themes_of($1)' INTO own USING caller;
    END IF;
    IF NOT has_column_privilege(caller, 'memory_history', 'agent_identity', 'UPDATE')
       OR caller <> session_user AND NOT pg_has_role(session_user, caller, 'MEMBER')
       OR own <> '{*}' AND NOT own @> ARRAY[theme, destination] THEN
        RAISE insufficient_privilege USING MESSAGE = format('permission denied to move the history of the theme %L', theme);
    END IF;
    EXECUTE format('WITH gone AS (DELETE FROM memory_history WHERE agent_identity = $1 RETURNING %1$s) '
                   'INSERT INTO memory_history (agent_identity, %1$s) OVERRIDING SYSTEM VALUE SELECT $2, %1$s FROM gone', columns)
      USING theme, destination;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END
$move$;

-- Whatever the session of the caller holds, they find our tables.
DO $paths$
BEGIN
    EXECUTE format('ALTER FUNCTION hermes_drop_chunks() SET search_path = pg_catalog, %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION hermes_move_history(text, text, name) SET search_path = pg_catalog, %I, pg_temp',
                   current_schema());
END
$paths$;

INSERT INTO hermes_migrations (version, name, checksum)
VALUES (5, 'keys', 'dd0e7a1a5de60180e040a2319f40c7284c9bcb76cf810945ac32fd2f77f55f03')
ON CONFLICT (version) DO NOTHING;

COMMIT;
