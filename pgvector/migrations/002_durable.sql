-- hermes-memory-pgvector, migration 002: who owns a memory, removals that wait for somebody's word, and what brings a
-- removed memory back.
--
-- Run it after 001_schema.sql, in the same ways. Running it again changes nothing. Where it ends with
-- "canceling statement due to lock timeout", it may be run again at once.

BEGIN;
SELECT pg_advisory_xact_lock(7310579462);
-- While it waits for a table everybody else waits behind it: rather it ends, and is run again.
SET LOCAL lock_timeout = '800ms';

-- A memory goes when nobody owns it any more. The hosts' memory files own what hermes_mirror names; `owners` are the others.
ALTER TABLE memory_entries ADD COLUMN IF NOT EXISTS owners text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN memory_entries.owners IS
    'who keeps this memory besides the hosts'' memory files: remember, add, delegation, import, kept, restored';
COMMIT;

-- Before there were owners, what came from elsewhere than a memory file said so. By itself, for it takes a large table a while:
-- nobody waits for it but who changes these very rows.
BEGIN;
SELECT pg_advisory_xact_lock(7310579462);
UPDATE memory_entries AS m
   SET owners = ARRAY[CASE m.metadata ->> 'source' WHEN 'remember' THEN 'remember' WHEN 'operator' THEN 'add'
                           WHEN 'delegation' THEN 'delegation' ELSE 'import' END]
 WHERE NOT EXISTS (SELECT FROM hermes_migrations WHERE version = 2) AND owners = '{}'
   AND (coalesce(m.metadata ->> 'source', '') NOT IN ('file', 'memory_tool')
        OR NOT EXISTS (SELECT FROM hermes_mirror AS f
                        WHERE f.agent_identity = m.agent_identity AND f.target = m.target AND f.digest = m.digest));
SELECT set_config('hermes_pgvector.owners_named', 'on', false);
COMMIT;

BEGIN;
SELECT pg_advisory_xact_lock(7310579462);
SET LOCAL lock_timeout = '800ms';
-- psql goes on after an error, unless it is told otherwise: what follows must not be recorded without what was before.
DO $named$
BEGIN
    IF coalesce(current_setting('hermes_pgvector.owners_named', true), '') <> 'on' THEN
        RAISE EXCEPTION '002_durable.sql did not get through; run it again';
    END IF;
END
$named$;

ALTER TABLE hermes_mirror ADD COLUMN IF NOT EXISTS held_at timestamptz, ADD COLUMN IF NOT EXISTS held_why text,
    ADD COLUMN IF NOT EXISTS kept_at timestamptz;
COMMENT ON COLUMN hermes_mirror.held_at IS 'since when the file lacks this entry and its removal waits for somebody''s word';
COMMENT ON COLUMN hermes_mirror.held_why IS 'what became of the file: missing, empty, damaged or shorter';
COMMENT ON COLUMN hermes_mirror.kept_at IS 'when it was decided that the memory stays although the file lacks it';

ALTER TABLE hermes_tombstones ADD COLUMN IF NOT EXISTS origin text NOT NULL DEFAULT '';
COMMENT ON COLUMN hermes_tombstones.origin IS 'the home whose memory file let go of the entry; empty where somebody else removed it';

ALTER TABLE memory_history ADD COLUMN IF NOT EXISTS old_row jsonb;
COMMENT ON COLUMN memory_history.old_content IS
    'what stood there before, or was removed because a memory file let go of it; NULL once that text was forgotten';
COMMENT ON COLUMN memory_history.old_row IS 'what else brings a removed memory back: its times, metadata, language and origin';
ALTER TABLE memory_history ALTER COLUMN old_row SET STATISTICS 0;
CREATE INDEX IF NOT EXISTS memory_history_removed_idx ON memory_history (digest) WHERE old_row IS NOT NULL;

-- As in 001, but where hermes_pgvector.keep_removed is on, a removal keeps what brings the memory back.
DO $once$
BEGIN
    IF NOT EXISTS (SELECT FROM hermes_migrations WHERE version = 2) THEN
        CREATE OR REPLACE FUNCTION hermes_note_memory() RETURNS trigger
            LANGUAGE plpgsql
            SET search_path FROM CURRENT
            SET enable_seqscan = off
        AS $note$
        DECLARE
            actor jsonb := coalesce(nullif(current_setting('hermes_pgvector.who', true), ''), '{}')::jsonb;
            short bytea;
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
                UPDATE memory_history SET old_content = NULL, old_row = NULL WHERE memory_id = OLD.id AND old_content IS NOT NULL;
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

-- Who may write the old text may write what goes with it.
DO $grants$
DECLARE
    each text;
BEGIN
    FOR each IN SELECT DISTINCT r.rolname FROM pg_attribute AS a CROSS JOIN LATERAL aclexplode(a.attacl) AS g
                  JOIN pg_roles AS r ON r.oid = g.grantee
                 WHERE a.attrelid = 'memory_history'::regclass AND a.attname = 'old_content' AND g.privilege_type = 'INSERT' LOOP
        EXECUTE format('GRANT INSERT (old_row), UPDATE (old_row) ON memory_history TO %I', each);
    END LOOP;
END
$grants$;

INSERT INTO hermes_migrations (version, name, checksum)
VALUES (2, 'durable', '9928d2bfef28555f111f75ed2ce5efcd2fe4edecc8d8f9a3f0f74a84322bdff1')
ON CONFLICT (version) DO NOTHING;

COMMIT;
