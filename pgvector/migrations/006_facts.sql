-- hermes-memory-pgvector, migration 006: a memory may say what kind it is, what about, and until when; and what is said anew
-- of the same subject takes the place of what was said before.
--
-- Run it after 005_keys.sql, in the same ways. Running it again changes nothing. First it adds columns that are empty for every
-- row that is stored, which takes no longer for a large table. Then it builds indexes, while memories are read and their writes
-- wait: that is once through the table for each. For either it waits for the table at most 0.8 s, in which everybody else waits
-- as well: when it ends with "canceling statement due to lock timeout", it may be run again at once.

BEGIN;

SELECT pg_advisory_xact_lock(7310579462);

DO $columns$
BEGIN
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'memory_entries'::regclass AND attname = 'kind') THEN
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', '800ms', true);
    -- NOT VALID, lest every row be read for columns that no row has.
    ALTER TABLE memory_entries
        ADD COLUMN kind text, ADD COLUMN subject text, ADD COLUMN scope text, ADD COLUMN state text,
        ADD COLUMN expires_at timestamptz, ADD COLUMN confidence real, ADD COLUMN sources bigint[],
        ADD COLUMN replaces bigint, ADD COLUMN applies_when text, ADD COLUMN pinned boolean,
        ADD CONSTRAINT memory_entries_kind_check CHECK (kind IN (
            'fact', 'preference', 'constraint', 'decision', 'value', 'question', 'procedure', 'reflection')) NOT VALID,
        ADD CONSTRAINT memory_entries_state_check CHECK (state IN ('active', 'closed', 'superseded', 'archived')) NOT VALID,
        ADD CONSTRAINT memory_entries_confidence_check CHECK (confidence BETWEEN 0 AND 1) NOT VALID,
        -- What has a subject takes part in the rule below, and so must say its kind and state.
        ADD CONSTRAINT memory_entries_subject_check CHECK (subject IS NULL OR kind IS NOT NULL AND state IS NOT NULL) NOT VALID;
    ALTER TABLE memory_history DROP CONSTRAINT IF EXISTS memory_history_action_check;
    ALTER TABLE memory_history ADD CONSTRAINT memory_history_action_check CHECK (action IN (
        'added', 'replaced', 'moved', 'removed', 'superseded', 'closed', 'archived', 'reopened')) NOT VALID;
END
$columns$;
COMMENT ON COLUMN memory_entries.kind IS 'fact, preference, constraint, decision, value, question, procedure or reflection; NULL for plain text';
COMMENT ON COLUMN memory_entries.subject IS 'what it is about, such as srv.prod; of one kind, subject and scope at most one memory is active';
COMMENT ON COLUMN memory_entries.scope IS 'the project or task it belongs to';
COMMENT ON COLUMN memory_entries.state IS 'active, closed, superseded or archived; NULL for plain text that is current. Superseded and archived ones are not recalled';
COMMENT ON COLUMN memory_entries.expires_at IS 'from then on it is not recalled';
COMMENT ON COLUMN memory_entries.sources IS 'the turns it was drawn from, by their ids';
COMMENT ON COLUMN memory_entries.replaces IS 'the id of the memory of this theme that it took the place of';
COMMENT ON COLUMN memory_entries.applies_when IS 'the situation that a procedure or reflection is for';
COMMENT ON COLUMN memory_entries.pinned IS 'stands in the prompt of every session of the theme';

COMMIT;
BEGIN;
SELECT pg_advisory_xact_lock(7310579462);
-- The functions below keep this search path: with "$user" in it they would look elsewhere for every role.
SELECT set_config('search_path', string_agg(quote_ident(name), ', ' ORDER BY place), true)
  FROM unnest(current_schemas(false)) WITH ORDINALITY AS schemas (name, place);
SET LOCAL lock_timeout = '800ms';

CREATE INDEX IF NOT EXISTS memory_entries_subject_idx ON memory_entries (agent_identity, lower(subject))
    WHERE state IS NOT NULL OR pinned;
CREATE INDEX IF NOT EXISTS memory_entries_procedures_idx ON memory_entries (agent_identity, updated_at)
    WHERE applies_when IS NOT NULL;
CREATE INDEX IF NOT EXISTS memory_entries_hidden_idx ON memory_entries (agent_identity, id)
    WHERE state IN ('superseded', 'archived');

-- Whichever way a row comes or changes, of one theme, scope, kind and subject the one said last is active, and the others
-- are superseded. What is superseded or archived leaves the indexes of vectors, so that many of them do not take the places
-- of what is current; the vector itself stays, for whoever brings it back.
CREATE OR REPLACE FUNCTION hermes_keep_facts() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
AS $keep$
DECLARE
    soon constant timestamptz := clock_timestamp() + interval '5 minutes';
    rival record;
BEGIN
    -- Whoever only embeds a row waits for nobody: the theme's writers wait for such rows.
    IF NEW.state = 'active' AND NEW.subject IS NOT NULL
       AND (NEW.kind, NEW.subject, NEW.scope, NEW.state, NEW.updated_at)
           IS DISTINCT FROM (OLD.kind, OLD.subject, OLD.scope, OLD.state, OLD.updated_at) THEN
        PERFORM pg_advisory_xact_lock(731057946, hashtext(NEW.agent_identity));
        FOR rival IN SELECT id, updated_at FROM memory_entries
                      WHERE agent_identity = NEW.agent_identity AND lower(subject) = lower(NEW.subject)
                        AND kind = NEW.kind AND coalesce(lower(scope), '') = coalesce(lower(NEW.scope), '')
                        AND state = 'active' AND id <> NEW.id
                        -- Another row of the same statement may have superseded this one since.
                        AND EXISTS (SELECT FROM memory_entries AS own WHERE own.agent_identity = NEW.agent_identity
                                       AND own.id = NEW.id AND own.state = 'active')
                      ORDER BY updated_at, id LOOP
            -- Nothing was said at a time to come: the clock of its host was wrong, and it gives way to what comes after it.
            IF (rival.updated_at, rival.id) > (NEW.updated_at, NEW.id)
               AND (rival.updated_at < soon OR NEW.updated_at >= soon AND rival.id > NEW.id) THEN
                UPDATE memory_entries SET state = 'superseded' WHERE agent_identity = NEW.agent_identity AND id = NEW.id;
                UPDATE memory_entries SET replaces = coalesce(replaces, NEW.id)
                 WHERE agent_identity = NEW.agent_identity AND id = rival.id;
                RETURN NULL;
            END IF;
            UPDATE memory_entries SET state = 'superseded' WHERE agent_identity = NEW.agent_identity AND id = rival.id;
            UPDATE memory_entries SET replaces = rival.id WHERE agent_identity = NEW.agent_identity AND id = NEW.id;
        END LOOP;
    END IF;
    IF NEW.state IN ('superseded', 'archived') THEN
        IF NEW.sig IS NOT NULL OR NEW.code IS NOT NULL THEN
            UPDATE memory_entries SET sig = NULL, code = NULL WHERE agent_identity = NEW.agent_identity AND id = NEW.id;
        END IF;
        DELETE FROM memory_chunks WHERE agent_identity = NEW.agent_identity AND row_id = NEW.id;
    ELSIF NEW.embedding IS NOT NULL AND NEW.sig IS NULL THEN
        -- The parts of a long text come with a new vector only.
        UPDATE memory_entries
           SET embedding = CASE WHEN octet_length(content) <= 400 THEN embedding END, embed_after = NULL,
               sig = CASE WHEN octet_length(content) <= 400 THEN binary_quantize(embedding) END,
               code = CASE WHEN octet_length(content) <= 400 THEN hermes_code(embedding) END
         WHERE agent_identity = NEW.agent_identity AND id = NEW.id;
    END IF;
    RETURN NULL;
END
$keep$;

-- Whoever embeds a row changes embed_after; to name the vector's own columns would keep a change of the model from dropping them.
CREATE OR REPLACE TRIGGER hermes_keep_facts AFTER INSERT ON memory_entries
    FOR EACH ROW WHEN (NEW.state IS NOT NULL) EXECUTE FUNCTION hermes_keep_facts();
CREATE OR REPLACE TRIGGER hermes_change_facts AFTER UPDATE OF kind, subject, scope, state, updated_at, embed_after ON memory_entries
    FOR EACH ROW WHEN (NEW.state IS NOT NULL AND (
        NEW.kind IS DISTINCT FROM OLD.kind OR NEW.subject IS DISTINCT FROM OLD.subject OR NEW.scope IS DISTINCT FROM OLD.scope
        OR NEW.state IS DISTINCT FROM OLD.state OR NEW.updated_at IS DISTINCT FROM OLD.updated_at
        OR NEW.embed_after IS DISTINCT FROM OLD.embed_after))
    EXECUTE FUNCTION hermes_keep_facts();

-- As in 005, with what became of a memory that has a state; a removal keeps its kind, subject and state.
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
        IF coalesce(NEW.state, 'active') <> coalesce(OLD.state, 'active') THEN
            INSERT INTO memory_history (agent_identity, memory_id, target, action, who, chars, digest)
            VALUES (NEW.agent_identity, NEW.id, NEW.target,
                    -- Not CASE .. WHEN 'active': Citus writes that wrongly when it passes the INSERT on.
                    CASE WHEN coalesce(NEW.state, 'active') = 'active' THEN 'reopened' ELSE NEW.state END, actor,
                    length(NEW.content), substr(NEW.digest, 1, 8));
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
                                       'origin', coalesce(current_setting('hermes_pgvector.origin', true), ''))
                    || jsonb_strip_nulls(jsonb_build_object(
                           'kind', OLD.kind, 'subject', OLD.subject, 'scope', OLD.scope, 'state', OLD.state,
                           'expires_at', OLD.expires_at, 'confidence', OLD.confidence, 'sources', OLD.sources,
                           'replaces', OLD.replaces, 'applies_when', OLD.applies_when, 'pinned', OLD.pinned)));
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

-- Beside hermes_note_change, which notes the state of what changes in other ways as well.
CREATE OR REPLACE TRIGGER hermes_note_state AFTER UPDATE OF state ON memory_entries
    FOR EACH ROW WHEN (NEW.state IS DISTINCT FROM OLD.state AND NEW.content IS NOT DISTINCT FROM OLD.content
                       AND NEW.agent_identity IS NOT DISTINCT FROM OLD.agent_identity)
    EXECUTE FUNCTION hermes_note_memory();

INSERT INTO hermes_migrations (version, name, checksum)
VALUES (6, 'facts', 'd56c36087d20f325e16adb1400d13d60c56be055e94d637e760d94f796c37125')
ON CONFLICT (version) DO NOTHING;

COMMIT;
