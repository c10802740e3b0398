-- What an agent writes. Each statement of this folder that reads or writes stored text is filtered by theme
-- (agent_identity), or says after "exempt:" why it is not.

-- name: set_timeouts
-- exempt: touches no table. `jit` is off, because compiling a plan takes longer than any statement here takes to run.
-- `enable_sort` is off, so that an index that gives the order, as of a session's turns, is walked only as far as the LIMIT.
-- Otherwise a planner that assumes short sessions would collect one of thousands of turns and sort it, once for every turn
-- whose neighbours are asked for; and one that assumes a small theme (a generic plan, no ANALYZE yet) would sort the whole
-- theme for its newest 1,000 rows. The path is set first, because what follows looks up our tables on it.
SELECT CASE WHEN %(path)s <> '' THEN set_config('search_path', %(path)s, true) END AS path, limits(),
       (SELECT count(set_config(name, value, true)) FROM expected_settings()) AS settings;

-- name: set_timeouts_only
-- exempt: touches no table. As set_timeouts, on a connection that keeps the other settings, see keep_settings.
SELECT limits();

-- name: keep_settings
-- exempt: touches no table. A pooler in transaction mode would pass these on to other clients: there each transaction sets
-- them. The isolation level is for round trips that are transactions of their own; behind a pooler the role's level applies.
SELECT count(set_config(name, value, false)) AS settings,
       set_config('default_transaction_isolation', 'read committed', false) AS isolation
  FROM expected_settings();

-- name: has_own_themes
-- exempt: touches no table. Whether row-level security lets this role see some themes only, rather than every theme.
SELECT hermes_themes_of(current_user) <> '{*}' AS own_themes;

-- name: is_confined
-- exempt: touches no table. Whether row-level security hides from this role what other themes hold.
SELECT row_security_active(to_regclass('hermes_operations')) AND to_regprocedure('hermes_themes_of(name)') IS NOT NULL
       AS confined;

-- name: themes_of_role
-- exempt: touches no table. '*' stands for every theme.
SELECT unnest(hermes_themes_of(current_user)) AS theme;

-- name: lock_theme
-- exempt: touches no table. Memory writes of one theme are serialised, whichever process they come from.
SELECT pg_advisory_xact_lock(731057946, hashtext(%(theme)s));

-- name: lock_home
-- exempt: touches no table. What one home reads and writes of its memory files is serialised, whichever themes it is in.
SELECT pg_advisory_xact_lock(731057948, hashtext(%(origin)s));

-- name: claim_operations
-- Returns the ids that were not applied before.
INSERT INTO hermes_operations (agent_identity, op_id)
SELECT * FROM unnest(%(themes)s::text[], %(op_ids)s::uuid[])
ON CONFLICT DO NOTHING
RETURNING op_id;

-- name: applied_operations
-- The ids that were applied. Not the others: Citus joins a list with a table, and takes no NOT EXISTS of one.
SELECT wanted.op_id
  FROM unnest(%(themes)s::text[], %(op_ids)s::uuid[]) AS wanted (agent_identity, op_id)
  JOIN hermes_operations AS o ON o.agent_identity = wanted.agent_identity AND o.op_id = wanted.op_id;

-- name: stored_turns
-- Those of the given turns that have a row already, whether or not their operation ids are known; more than once if they
-- have several rows.
SELECT wanted.op_id
  FROM unnest(%(themes)s::text[], %(sessions)s::text[], %(times)s::timestamptz[], %(digests)s::bytea[], %(op_ids)s::uuid[])
       AS wanted(agent_identity, session_id, ts, digest, op_id)
  JOIN conversations AS c
    ON c.agent_identity = wanted.agent_identity AND c.session_id = wanted.session_id AND c.ts = wanted.ts
       AND hermes_digest(c.content) = wanted.digest;

-- name: forgotten_since
-- A removal by the same home is compared by the clock that orders the writes of that home.
SELECT target, digest, removed_at, origin FROM hermes_tombstones
 WHERE agent_identity = %(theme)s AND target = %(target)s AND digest = %(digest)s
   AND CASE origin WHEN %(origin)s THEN comes_after(removed_at; %(noted_at)s) ELSE removed_at >= %(at)s END;

-- name: dropped_since
-- exempt: digests of what this home's own files dropped, whichever themes owned it. By the clock that orders the writes of
-- that home; `since` is the earliest of the given times, for the index.
SELECT given.op_id
  FROM unnest(%(op_ids)s::uuid[], %(origins)s::text[], %(targets)s::text[], %(digests)s::bytea[], %(times)s::timestamptz[])
       AS given(op_id, origin, target, digest, noted_at)
  JOIN hermes_tombstones AS t ON t.origin = given.origin AND t.target = given.target AND t.digest = given.digest
 WHERE t.removed_at > %(since)s AND comes_after(t.removed_at; given.noted_at);

-- name: forget_operations
-- exempt: housekeeping of operation ids, no stored text.
DELETE FROM hermes_operations WHERE applied_at < LEAST(now(), %(now)s) - make_interval(days => %(days)s);

-- name: forget_tombstones
-- exempt: housekeeping of digests, no stored text.
DELETE FROM hermes_tombstones WHERE removed_at < LEAST(now(), %(now)s) - make_interval(days => %(days)s);

-- name: copy_turns
-- exempt: every row that follows names its theme.
COPY conversations (session_id, agent_identity, role, content, ts, embedding, metadata, text_language) FROM STDIN (FORMAT binary);

-- name: insert_turns
-- As copy_turns, for row-level security, which COPY does not support.
INSERT INTO conversations (agent_identity, session_id, role, content, ts, embedding, metadata, text_language)
SELECT * FROM unnest(%(theme)b::text[], %(session_id)b::text[], %(role)b::text[], %(content)b::text[],
                     %(at)b::timestamptz[], %(embedding)b::vector[], %(metadata)b::jsonb[], %(language)b::text[]);

-- name: undo_turns
DELETE FROM conversations AS c USING unnest(%(since)s::timestamptz[], %(until)s::timestamptz[]) AS span (since, until)
 WHERE c.agent_identity = %(theme)s AND c.session_id = %(session_id)s AND c.ts BETWEEN span.since AND span.until;

-- name: upsert_memory
-- `anew`: the text was said now, so the memory is current again if another one had replaced it.
INSERT INTO memory_entries (agent_identity, target, content, embedding, created_at, updated_at, metadata, text_language,
                            said_columns())
VALUES (%(theme)s, %(target)s, %(content)s, %(embedding)s, %(at)s, %(at)s, %(metadata)s, %(language)s,
        said_values())
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET updated_at = CASE WHEN %(anew)s OR memory_entries.state IS NULL
                         THEN greatest(memory_entries.updated_at, excluded.updated_at) ELSE memory_entries.updated_at END,
       kept_vector(),
       said_again();

-- name: clear_tombstone
DELETE FROM hermes_tombstones
 WHERE agent_identity = %(theme)s AND target = %(target)s AND digest = hermes_digest(%(content)s);

-- name: note_mirrored
INSERT INTO hermes_mirror (agent_identity, origin, target, digest, announced, noted_at)
VALUES (%(theme)s, %(origin)s, %(target)s, hermes_digest(%(content)s), %(announced)s, %(noted_at)s)
ON CONFLICT (agent_identity, origin, target, digest) DO UPDATE
   SET announced = hermes_mirror.announced OR excluded.announced,
       noted_at = greatest(hermes_mirror.noted_at, excluded.noted_at), held_at = NULL, held_why = NULL, kept_at = NULL;

-- name: own_again
-- The file holds an entry again that was kept when it had lost it, and owns the memory as before.
UPDATE memory_entries AS m SET owners = array_remove(m.owners, 'kept')
  FROM hermes_mirror AS f
 WHERE m.agent_identity = %(theme)s AND m.target = %(target)s AND m.digest = hermes_digest(%(content)s) AND 'kept' = ANY(m.owners)
   AND f.agent_identity = %(theme)s AND f.origin = %(origin)s AND f.target = m.target AND f.digest = m.digest
   AND f.kept_at IS NOT NULL;

-- name: take_over_mirrored
-- exempt: moves an entry of this host's own file from the theme it was guessed for to the theme that wrote it. One that was
-- imported long before belongs to the profile: the host also announces what it does not write because the file holds it.
WITH guessed AS (
    DELETE FROM hermes_mirror
     WHERE origin = %(origin)s AND target = %(target)s AND digest = %(digest)s
       AND NOT announced AND agent_identity <> %(theme)s
       AND noted_at > %(noted_at)s - make_interval(secs => %(announced_within_s)s)
    RETURNING agent_identity, digest)
DELETE FROM memory_entries AS m USING guessed
 WHERE m.agent_identity = guessed.agent_identity AND m.target = %(target)s AND m.digest = guessed.digest
   AND m.metadata ->> 'source' = 'file' AND m.owners = '{}';

-- name: claim_mirrored
-- The same in the theme that wrote it: where an entry was said decides who may read it, whoever imported it meanwhile.
UPDATE memory_entries AS m SET metadata = %(metadata)s
  FROM hermes_mirror AS f
 WHERE m.agent_identity = %(theme)s AND m.target = %(target)s AND m.digest = %(digest)s
   AND m.metadata ->> 'source' = 'file' AND m.owners = '{}'
   AND f.agent_identity = %(theme)s AND f.origin = %(origin)s AND f.target = m.target AND f.digest = m.digest
   AND NOT f.announced AND f.noted_at > %(noted_at)s - make_interval(secs => %(announced_within_s)s);

-- name: find_memory
-- The entries `old_text` may mean: in this theme, or in this host's own file, whichever theme owns the entry there. An entry
-- that has another owner, and that no file of this host holds, is not for this host's file to change. Nor is one meant that the
-- file got after this write, which waited.
SELECT m.id, m.agent_identity, m.content, m.content = %(old_text)s AS whole, has_owner(m) AS owned,
       EXISTS (SELECT FROM hermes_mirror AS f
                WHERE f.agent_identity = m.agent_identity AND f.origin = %(origin)s
                  AND f.target = m.target AND f.digest = m.digest AND f.kept_at IS NULL) AS in_file
  FROM memory_entries AS m
 WHERE m.agent_identity = %(theme)s AND m.target = %(target)s AND position(%(old_text)s IN m.content) > 0
   AND NOT has_owner(m)
   AND NOT in_file_since(m)
UNION
SELECT m.id, m.agent_identity, m.content, m.content = %(old_text)s, has_owner(m), true
  FROM hermes_mirror AS f
  JOIN memory_entries AS m
    ON m.agent_identity = f.agent_identity AND m.target = f.target AND m.digest = f.digest
 WHERE f.origin = %(origin)s AND f.target = %(target)s AND position(%(old_text)s IN m.content) > 0
   AND f.kept_at IS NULL AND NOT comes_after(f.noted_at; %(noted_at)s);

-- name: find_successor
-- The memory that an entry of this host's own file has become since another host replaced it, newest change first. A part of
-- the text only matches entries of this host's file: otherwise it would match any text that a memory ever had. What it has become
-- is not meant if the file got that after this write.
SELECT m.id, m.agent_identity, m.content, h.old_digest = substr(hermes_digest(%(old_text)s), 1, 8) AS whole, has_owner(m) AS owned
  FROM memory_history AS h
  JOIN memory_entries AS m ON m.id = h.memory_id AND m.agent_identity = h.agent_identity
 WHERE h.agent_identity = %(theme)s AND h.target = %(target)s AND h.action = 'replaced'
   AND (h.old_digest = substr(hermes_digest(%(old_text)s), 1, 8)
        OR position(%(old_text)s IN h.old_content) > 0
           AND EXISTS (SELECT FROM hermes_mirror AS f
                        WHERE f.agent_identity = h.agent_identity AND f.origin = %(origin)s AND f.target = h.target
                          AND substr(f.digest, 1, 8) = h.old_digest AND f.kept_at IS NULL))
   AND NOT in_file_since(m)
 ORDER BY h.id DESC;

-- name: let_go_of_memory
-- Drops an entry from a memory file; the memory is removed if nobody else owns it, else it is recorded as kept. What was said of
-- its subject before holds again if that is a line that the file still has, and nothing that is current replaced it, of another
-- subject or of none.
WITH entry AS (
    SELECT id, agent_identity, target, digest, has_owner(m) AS stays
      FROM memory_entries AS m WHERE agent_identity = %(theme)s AND id = %(id)s),
unmirrored AS (
    DELETE FROM hermes_mirror AS f USING entry
     WHERE f.agent_identity = %(theme)s AND f.origin = %(origin)s
       AND f.target = entry.target AND f.digest = entry.digest AND NOT entry.stays),
kept AS (
    UPDATE hermes_mirror AS f SET held_at = NULL, held_why = NULL, kept_at = now() FROM entry
     WHERE f.agent_identity = %(theme)s AND f.origin = %(origin)s
       AND f.target = entry.target AND f.digest = entry.digest AND entry.stays),
gone AS (
    DELETE FROM memory_entries AS m USING entry
     WHERE m.agent_identity = %(theme)s AND m.id = entry.id AND NOT has_owner(m)
    RETURNING m.id, m.agent_identity, m.target, m.digest, m.kind, m.subject, m.scope, m.state),
held_again AS (
    UPDATE memory_entries AS m SET state = 'active'
     WHERE m.agent_identity = %(theme)s AND m.id = (
        SELECT last.id
          FROM (SELECT before.id, before.target, before.digest, before.state
                  FROM gone
                  JOIN memory_entries AS before ON lower(before.subject) = lower(gone.subject) AND before.kind = gone.kind
                       AND coalesce(lower(before.scope), '') = coalesce(lower(gone.scope), '') AND before.id <> gone.id
                 WHERE gone.state = 'active' AND before.agent_identity = %(theme)s AND (before.state IS NOT NULL OR before.pinned)
                 ORDER BY before.updated_at DESC, before.id DESC
                 LIMIT 1) AS last
          JOIN hermes_mirror AS f ON f.target = last.target AND f.digest = last.digest
         WHERE last.state = 'superseded' AND f.agent_identity = %(theme)s AND f.origin = %(origin)s AND held_entry(f)
           AND NOT EXISTS (SELECT FROM memory_entries AS later
                            WHERE later.agent_identity = %(theme)s AND later.replaces = last.id AND later.id <> %(id)s
                              AND is_current(later))))
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at, origin)
SELECT agent_identity, target, digest, %(noted_at)s, %(origin)s FROM gone
ON CONFLICT (agent_identity, target, digest) DO UPDATE SET last_removal();

-- name: note_dropped
-- Adds a tombstone for a text that this host's file dropped and that is not stored here: the write that stores it may wait.
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at, origin)
SELECT %(theme)s, %(target)s, hermes_digest(%(old_text)s), %(noted_at)s, %(origin)s
 WHERE NOT EXISTS (SELECT FROM memory_entries
                    WHERE agent_identity = %(theme)s AND target = %(target)s AND digest = hermes_digest(%(old_text)s))
ON CONFLICT (agent_identity, target, digest) DO UPDATE SET last_removal();

-- name: let_go_of_replaced
-- Drops the one entry of this host's file that `old_text` means, if somebody has replaced it since: what it has become stays.
WITH meant AS (
    SELECT DISTINCT f.digest
      FROM hermes_mirror AS f
      JOIN memory_history AS h
        ON h.agent_identity = f.agent_identity AND h.target = f.target AND h.old_digest = substr(f.digest, 1, 8)
     WHERE f.agent_identity = %(theme)s AND f.origin = %(origin)s AND f.target = %(target)s AND h.action = 'replaced'
       AND f.kept_at IS NULL AND NOT comes_after(f.noted_at; %(noted_at)s)
       AND (h.old_digest = substr(hermes_digest(%(old_text)s), 1, 8) OR position(%(old_text)s IN h.old_content) > 0))
DELETE FROM hermes_mirror AS f USING meant
 WHERE f.agent_identity = %(theme)s AND f.origin = %(origin)s AND f.target = %(target)s AND f.digest = meant.digest
   AND (SELECT count(*) FROM meant) = 1
RETURNING true AS gone;

-- name: remember_memory
-- A memory whose text the theme holds already is confirmed, and gets the fields that are given now.
INSERT INTO memory_entries (agent_identity, target, content, embedding, created_at, updated_at, metadata, text_language, owners,
                            said_columns())
VALUES (%(theme)s, %(target)s, %(content)s, %(embedding)s, %(at)s, %(at)s, %(metadata)s, %(language)s, ARRAY[%(owner)s],
        said_values())
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET updated_at = greatest(memory_entries.updated_at, excluded.updated_at),
       kept_vector(),
       said_again(),
       metadata = memory_entries.metadata || %(given)s,
       owners = array_remove(memory_entries.owners, %(owner)s) || excluded.owners;

-- name: memory_id
SELECT id FROM memory_entries
 WHERE agent_identity = %(theme)s AND target = %(target)s AND digest = hermes_digest(%(content)s);

-- name: is_superseded
SELECT state = 'superseded' AS so FROM memory_entries WHERE agent_identity = %(theme)s AND id = %(id)s;

-- name: memories_by_id
SELECT id, target, content, updated_at AS at FROM memory_entries
 WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s) ORDER BY id;

-- name: forget_memories
-- The record that files hold the entries is kept, so that what is forgotten is not imported again.
WITH gone AS (
    DELETE FROM memory_entries WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s)
    RETURNING agent_identity, target, digest)
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at)
SELECT agent_identity, target, digest, %(at)s FROM gone
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET removed_at = greatest(hermes_tombstones.removed_at, excluded.removed_at), origin = '';

-- name: earlier_memories
-- What these memories took the place of, and so on, as far as recall does not find it and they are not among these.
WITH RECURSIVE earlier AS (
    SELECT replaces AS id FROM memory_entries WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s)
    UNION
    SELECT m.replaces FROM memory_entries AS m JOIN earlier USING (id) WHERE m.agent_identity = %(theme)s)
SELECT m.id FROM memory_entries AS m JOIN earlier USING (id)
 WHERE m.agent_identity = %(theme)s AND m.state IN ('superseded', 'archived') AND m.id <> ALL(%(ids)s) ORDER BY m.id;

-- name: held_elsewhere
-- Whether memory files of other homes held one of these texts when they were last read.
SELECT EXISTS (
    SELECT FROM hermes_mirror AS f
      JOIN unnest(%(targets)s::text[], %(contents)s::text[]) AS given(target, content)
        ON f.target = given.target AND f.digest = hermes_digest(given.content)
     WHERE f.agent_identity = %(theme)s AND f.origin <> %(origin)s AND held_entry(f)) AS so;

-- name: newest_memories
-- Of a long text only the beginning is returned.
WITH newest AS MATERIALIZED (
    SELECT id, updated_at FROM memory_entries
     WHERE agent_identity = %(theme)s AND target = %(target)s AND is_current(memory_entries)
     ORDER BY updated_at DESC, id DESC LIMIT %(limit)s)
SELECT m.id, m.updated_at AS at, left(m.content, %(chars)s) AS content, CASE WHEN octet_length(m.content) > 100000 THEN octet_length(m.content) ELSE length(m.content) END AS chars
  FROM newest JOIN memory_entries AS m ON m.agent_identity = %(theme)s AND m.id = newest.id
 ORDER BY newest.updated_at DESC, newest.id DESC;

-- name: count_memories
SELECT target, count(*) AS count FROM memory_entries
 WHERE agent_identity = %(theme)s AND is_current(memory_entries) GROUP BY target;

-- name: replace_memory
-- Fields besides the text that are not given keep their values.
UPDATE memory_entries
   SET content = %(content)s, embedding = %(embedding)s, sig = binary_quantize(%(embedding)s::vector),
       code = hermes_code(%(embedding)s::vector), embed_after = NULL, updated_at = %(at)s, metadata = %(metadata)s,
       text_language = %(language)s,
       kind = coalesce(%(said_kind)s, kind, %(kind)s), subject = coalesce(%(subject)s, subject), scope = coalesce(%(scope)s, scope),
       state = coalesce(%(state)s, CASE WHEN state IS NOT NULL THEN 'active' END),
       expires_at = coalesce(%(expires_at)s, expires_at), confidence = coalesce(%(confidence)s, confidence),
       sources = coalesce(%(sources)s, sources), applies_when = coalesce(%(applies_when)s, applies_when),
       pinned = coalesce(%(pinned)s, pinned)
 WHERE agent_identity = %(theme)s AND id = %(id)s;

-- name: current_of_subject
-- The active memory of a subject that was said last before `at`; if all were said later, the one that was said last. None if the
-- text is current itself: said once more, it does not take the place of another kind's memory.
SELECT id, kind, scope FROM memory_entries
 WHERE agent_identity = %(theme)s AND lower(subject) = lower(%(subject)s) AND state = 'active'
   AND content <> %(content)s
   AND (%(scope)s::text IS NULL OR lower(scope) = lower(%(scope)s))
   AND NOT EXISTS (SELECT FROM memory_entries AS own
                    WHERE own.agent_identity = %(theme)s AND own.target = %(target)s AND own.digest = hermes_digest(%(content)s)
                      AND own.state = 'active' AND lower(own.subject) = lower(%(subject)s))
 ORDER BY updated_at <= %(at)s DESC, updated_at DESC, id DESC LIMIT 1;

-- name: supersede_memory
-- Another memory replaces this one, unless it has the same text.
UPDATE memory_entries SET state = 'superseded'
 WHERE agent_identity = %(theme)s AND id = %(replaced)s
   AND (target, digest) <> (%(target)s::text, hermes_digest(%(content)s))
RETURNING id;

-- name: note_replaced
-- A new memory of an operator, who says it in no chat, is said where the one was that it replaces: in a chat, it stays there.
-- Citus refuses jsonb_build_object, which is not immutable, in the CASE of an UPDATE.
UPDATE memory_entries AS m
   SET replaces = old.id,
       metadata = CASE WHEN m.created_at < %(at)s OR m.metadata ? 'platform' THEN m.metadata
                       ELSE m.metadata || jsonb_strip_nulls(jsonb_object('{platform,profile,chat_type,chat,user}', ARRAY[
                           old.metadata ->> 'platform', old.metadata ->> 'profile', old.metadata ->> 'chat_type',
                           old.metadata ->> 'chat', old.metadata ->> 'user'])) END
  FROM memory_entries AS old
 WHERE m.agent_identity = %(theme)s AND m.target = %(target)s AND m.digest = hermes_digest(%(content)s)
   AND old.agent_identity = %(theme)s AND old.id = %(replaced)s;

-- name: close_scope
-- Closes the memories of a scope and, of those without a scope, the questions, decisions and values of that subject.
UPDATE memory_entries SET state = 'closed'
 WHERE agent_identity = %(theme)s AND state = 'active' AND updated_at <= %(at)s
   AND (lower(scope) = lower(%(subject)s)
        OR scope IS NULL AND kind IN ('question', 'decision', 'value')
           AND (lower(subject) = lower(%(subject)s) OR starts_with(lower(subject), lower(%(subject)s) || '.')))
RETURNING id;

-- name: bury_memory
-- Adds a tombstone for a replaced text, and deletes the record that this host's file holds it.
WITH gone AS (
    SELECT agent_identity, target, digest FROM memory_entries WHERE agent_identity = %(theme)s AND id = %(id)s),
unmirrored AS (
    DELETE FROM hermes_mirror AS f USING gone
     WHERE f.agent_identity = %(theme)s AND f.origin = %(origin)s
       AND f.target = gone.target AND f.digest = gone.digest)
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at, origin)
SELECT agent_identity, target, digest, %(noted_at)s, %(origin)s FROM gone
ON CONFLICT (agent_identity, target, digest) DO UPDATE SET last_removal();

-- name: memory_exists
SELECT EXISTS (SELECT FROM memory_entries
                WHERE agent_identity = %(theme)s AND target = %(target)s AND digest = hermes_digest(%(content)s));

-- name: inherit_mirrored
-- exempt: this home's own files, under another name of its host or path, whichever theme owns an entry.
UPDATE hermes_mirror AS f SET origin = %(origin)s
 WHERE f.origin = %(formerly)s AND f.noted_at <= %(until)s
   AND NOT EXISTS (SELECT FROM hermes_mirror AS own
                    WHERE own.agent_identity = f.agent_identity AND own.origin = %(origin)s AND own.target = f.target
                      AND own.digest = f.digest);

-- name: forget_inherited
-- exempt: as inherit_mirrored. What is left are entries that were noted under the new name already.
DELETE FROM hermes_mirror WHERE origin = %(formerly)s AND noted_at <= %(until)s;

-- name: mirror_difference
-- exempt: compares this host's own file with what was read from it before, whichever theme owns an entry.
-- kind 'new': an entry of the file that was not seen before, with the id of its removal if this same file dropped it before;
-- 'theirs': one that a session of the same profile told the home that this is a copy of, in another theme;
-- 'buried': one that was removed elsewhere after the file was written, or while it stood in the file that this is a copy of,
-- or in this one before an import made the database anew; 'gone': a seen entry that the file no longer holds, and about which
-- nobody has decided yet; 'moved': one that `relieve` took out of it; 'stays': one that it still holds; 'ahead': one that this
-- same reading has imported in an earlier transaction; 'back': one that it holds again. An entry that was recorded or dropped
-- after the file was read is left out, as is one that is not in `had`: only the file of a copy of this home has held it, or
-- `relieve` took it out, of which a database that was set back knows nothing. `files_own`: nobody but memory files keeps it.
WITH now_in_file AS (
    SELECT DISTINCT content, hermes_digest(content) AS digest FROM unnest(%(contents)s::text[]) AS content),
-- One that was kept when the file had lost it, and that somebody forgot then, is new when it is written there again, unless the
-- file is older than that.
seen AS (
    SELECT agent_identity, digest, noted_at, held_at, kept_at FROM hermes_mirror AS f
     WHERE origin = %(origin)s AND target = %(target)s
       AND (kept_at IS NULL OR EXISTS (SELECT FROM memory_entries AS m
                                        WHERE m.agent_identity = f.agent_identity AND m.target = f.target AND m.digest = f.digest)
            OR EXISTS (SELECT FROM hermes_tombstones AS t
                        WHERE t.agent_identity = f.agent_identity AND t.target = f.target AND t.digest = f.digest
                          AND t.origin <> %(origin)s AND t.removed_at >= %(file_time)s))),
dropped AS (
    SELECT digest FROM hermes_tombstones
     WHERE origin = %(origin)s AND target = %(target)s AND comes_after(removed_at; %(noted_at)s)),
fresh AS (
    SELECT n.content, n.digest FROM now_in_file AS n
     WHERE NOT EXISTS (SELECT FROM seen WHERE seen.digest = n.digest)
       AND NOT EXISTS (SELECT FROM dropped WHERE dropped.digest = n.digest)),
-- Each with its last removal, if there is one. Not looked up entry by entry: Citus takes no such lookup beside a CTE.
added AS (
    SELECT content, digest, max(removal) AS removal
      FROM (SELECT content, digest, NULL::bigint AS removal FROM fresh
            UNION ALL
            SELECT f.content, f.digest, h.id
              FROM fresh AS f
              JOIN memory_history AS h
                ON h.digest = substr(f.digest, 1, 8) AND h.old_row IS NOT NULL AND h.old_content = f.content
                   AND h.target = %(target)s AND h.old_row ->> 'origin' = %(origin)s) AS found
     GROUP BY content, digest),
removed_there AS (
    SELECT DISTINCT m.digest
      FROM hermes_mirror AS m
      JOIN hermes_tombstones AS t ON t.agent_identity = m.agent_identity AND t.target = m.target AND t.digest = m.digest
     WHERE m.origin = %(copied_from)s AND m.target = %(target)s),
theirs AS (
    SELECT m.digest, m.agent_identity, m.agent_identity = %(theme)s AS here
      FROM hermes_mirror AS f
      JOIN memory_entries AS m ON m.agent_identity = f.agent_identity AND m.target = f.target AND m.digest = f.digest
     WHERE f.origin = %(copied_from)s AND f.target = %(target)s
       -- What was read from its file there is in the theme of its profile: where that is not this one, it is wanted here, too.
       AND (m.agent_identity = %(theme)s
            OR (coalesce(m.metadata ->> 'profile', '') = %(profile)s AND m.metadata ->> 'source' IS DISTINCT FROM 'file'))),
elsewhere AS (
    SELECT digest, agent_identity FROM theirs WHERE NOT EXISTS (SELECT FROM theirs AS h WHERE h.digest = theirs.digest AND h.here)),
had_before AS (
    SELECT DISTINCT head FROM unnest(%(had)s::text[]) AS head
     WHERE NOT EXISTS (SELECT FROM seen WHERE seen.noted_at < %(noted_at)s))
SELECT CASE WHEN r.digest IS NOT NULL OR (t.origin = 'import' AND b.head IS NOT NULL)
              OR (t.origin <> %(origin)s AND t.removed_at >= %(file_time)s)
            THEN 'buried' ELSE 'new' END AS kind,
       NULL::bigint AS id, %(theme)s AS theme, n.content, n.digest, n.removal, false AS files_own
  FROM added AS n
  LEFT JOIN hermes_tombstones AS t ON t.agent_identity = %(theme)s AND t.target = %(target)s AND t.digest = n.digest
  LEFT JOIN removed_there AS r ON r.digest = n.digest
  LEFT JOIN had_before AS b ON b.head = encode(substr(n.digest, 1, 8), 'hex')
 WHERE NOT EXISTS (SELECT FROM elsewhere WHERE elsewhere.digest = n.digest)
UNION ALL
SELECT 'theirs', NULL, e.agent_identity, n.content, n.digest, NULL, false
  FROM fresh AS n JOIN elsewhere AS e ON e.digest = n.digest
UNION ALL
SELECT CASE WHEN n.digest IS NULL THEN CASE WHEN 'relieve' = ANY(m.owners) THEN 'moved' ELSE 'gone' END
            WHEN coalesce(seen.held_at, seen.kept_at) IS NOT NULL THEN 'back'
            WHEN seen.noted_at = %(noted_at)s THEN 'ahead' ELSE 'stays' END,
       m.id, seen.agent_identity, coalesce(n.content, m.content), seen.digest, NULL, NOT has_owner(m)
  FROM seen
  LEFT JOIN now_in_file AS n ON n.digest = seen.digest
  LEFT JOIN memory_entries AS m
    ON m.agent_identity = seen.agent_identity AND m.target = %(target)s AND m.digest = seen.digest
 WHERE n.digest IS NOT NULL
    OR (NOT comes_after(seen.noted_at; %(noted_at)s) AND seen.held_at IS NULL AND seen.kept_at IS NULL
        AND (%(had)s::text[] = '{}' OR encode(substr(seen.digest, 1, 8), 'hex') IN (SELECT unnest(%(had)s::text[]))
             OR 'relieve' = ANY(m.owners)));

-- name: hold_removals
-- exempt: as mirror_difference. Holds the removal of these entries until somebody decides.
UPDATE hermes_mirror SET held_at = now(), held_why = %(why)s
 WHERE origin = %(origin)s AND target = %(target)s AND digest = ANY(%(digests)s::bytea[]);

-- name: withdraw_removals
-- exempt: as mirror_difference. The file holds these entries again, and owns them as before.
WITH back AS (
    UPDATE hermes_mirror SET held_at = NULL, held_why = NULL, kept_at = NULL
     WHERE origin = %(origin)s AND target = %(target)s AND digest = ANY(%(digests)s::bytea[])
    RETURNING agent_identity, digest)
UPDATE memory_entries AS m SET owners = array_remove(m.owners, 'kept')
  FROM back
 WHERE m.agent_identity = back.agent_identity AND m.target = %(target)s AND m.digest = back.digest AND 'kept' = ANY(m.owners);

-- name: keep_relieved
-- These entries stay although the file lacks them. If it holds them again, they are in the themes they were in.
UPDATE hermes_mirror AS f SET kept_at = now()
  FROM unnest(%(themes)s::text[], %(digests)s::bytea[]) AS moved(theme, digest)
 WHERE f.agent_identity = moved.theme AND f.origin = %(origin)s AND f.target = %(target)s AND f.digest = moved.digest;

-- name: forget_mirrored
-- This host's own file no longer holds these entries, and nothing else does.
DELETE FROM hermes_mirror AS f USING unnest(%(themes)s::text[], %(digests)s::bytea[]) AS gone(theme, digest)
 WHERE f.agent_identity = gone.theme AND f.origin = %(origin)s AND f.target = %(target)s AND f.digest = gone.digest;

-- name: keep_undecided
-- exempt: housekeeping of digests. Entries whose removal has waited for so long are kept although their file lacks them. The
-- memories themselves, which may be locked, are not touched.
UPDATE hermes_mirror SET held_at = NULL, held_why = NULL, kept_at = now()
 WHERE held_at < now() - make_interval(secs => %(older_than_s)s)
RETURNING agent_identity AS theme, target, digest;

-- name: own_kept
UPDATE memory_entries AS m SET owners = array_append(array_remove(m.owners, 'kept'), 'kept')
  FROM unnest(%(themes)s::text[], %(targets)s::text[], %(digests)s::bytea[]) AS kept(theme, target, digest)
 WHERE m.agent_identity = kept.theme AND m.target = kept.target AND m.digest = kept.digest;

-- name: restore_memory
-- exempt: one removal, by its number. The memory gets back its id, if that is free, its times, metadata and language.
-- `in_file`: its line has come back, so it holds again, unless a memory that was said later of its subject or replaced it does.
INSERT INTO memory_entries (id, agent_identity, target, content, created_at, updated_at, metadata, text_language, owners,
                            said_columns())
SELECT CASE WHEN h.memory_id > 0 AND taken.id IS NULL
            THEN h.memory_id ELSE nextval('memory_entries_id_seq') END,
       h.agent_identity, h.target, h.old_content, (h.old_row ->> 'created_at')::timestamptz,
       (h.old_row ->> 'updated_at')::timestamptz, h.old_row -> 'metadata', h.old_row ->> 'text_language', %(owners)s::text[],
       said.kind, said.subject, said.scope,
       CASE WHEN %(in_file)s AND said.subject IS NOT NULL AND said.state = 'superseded' AND later.replaces IS NULL
            THEN 'active' ELSE said.state END,
       said.expires_at, said.confidence, said.sources, said.replaces, said.applies_when, said.pinned
  FROM memory_history AS h
 CROSS JOIN LATERAL jsonb_to_record(h.old_row)
       AS said(kind text, subject text, scope text, state text, expires_at timestamptz, confidence real, sources bigint[],
               replaces bigint, applies_when text, pinned boolean)
  LEFT JOIN (SELECT id FROM memory_entries
              WHERE id = (SELECT memory_id FROM memory_history WHERE id = %(removal)s) LIMIT 1) AS taken ON true
  LEFT JOIN (SELECT DISTINCT agent_identity, replaces FROM memory_entries
              WHERE replaces = (SELECT memory_id FROM memory_history WHERE id = %(removal)s) AND is_current(memory_entries)
                AND agent_identity = (SELECT agent_identity FROM memory_history WHERE id = %(removal)s)
                -- Else no row need be looked at.
                AND %(in_file)s AND (SELECT old_row ->> 'state' FROM memory_history WHERE id = %(removal)s) = 'superseded')
         AS later ON later.agent_identity = h.agent_identity
 WHERE h.id = %(removal)s AND h.old_row IS NOT NULL AND h.old_content IS NOT NULL
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET owners = ARRAY(SELECT DISTINCT owner FROM unnest(memory_entries.owners || excluded.owners) AS owner)
RETURNING id, agent_identity AS theme, target, content;

-- name: hold_space
-- exempt: touches no table. Until the transaction ends, no other model's vectors can replace these.
SELECT pg_advisory_xact_lock_shared(731057947);

-- name: record_space
-- exempt: the name of the embedding model, no stored text.
UPDATE hermes_embedding
   SET model = %(model)s, document_prefix = %(document_prefix)s, query_prefix = %(query_prefix)s, recorded_at = now()
 WHERE model IS NULL;

-- name: read_space
-- exempt: the name of the embedding model, no stored text.
SELECT model, document_prefix, query_prefix,
       (SELECT atttypmod FROM pg_attribute
         WHERE attrelid = 'memory_entries'::regclass AND attname = 'embedding') AS dims
  FROM hermes_embedding;

-- name: known_vectors
-- For texts given by their digests, the vectors that the theme's rows hold of the same texts. The index of turns holds the
-- head of the digest; `|| ''` keeps the planner from reading a whole theme that it takes for small.
SELECT wanted.number, known.embedding
  FROM unnest(%(digests)s::bytea[]) WITH ORDINALITY AS wanted(digest, number)
 CROSS JOIN LATERAL (
    (SELECT embedding FROM memory_entries AS m
      WHERE m.agent_identity = %(theme)s AND m.target = 'memory' AND m.digest = wanted.digest
        AND m.embedding IS NOT NULL)
    UNION ALL
    (SELECT embedding FROM memory_entries AS m
      WHERE m.agent_identity = %(theme)s AND m.target = 'user' AND m.digest = wanted.digest
        AND m.embedding IS NOT NULL)
    UNION ALL
    (SELECT embedding FROM conversations AS c
      WHERE begins_alike(c; wanted)
        AND hermes_digest(c.content) = wanted.digest AND c.agent_identity || '' = %(theme)s
        AND c.embedding IS NOT NULL
      LIMIT 1)
    LIMIT 1) AS known;

-- name: due_themes_memories
-- exempt: names of themes, no stored text. Those whose rows are to be embedded next, oldest first.
due_themes(memory_entries);

-- name: due_themes_turns
-- exempt: as due_themes_memories.
due_themes(conversations);

-- name: claim_due_memories
claim_due(memory_entries);

-- name: claim_due_turns
claim_due(conversations);

-- name: postpone_memories
postpone(memory_entries);

-- name: postpone_turns
postpone(conversations);

-- name: clear_chunks_memories
clear_chunks(memory_chunks; memory_entries);

-- name: clear_chunks_turns
clear_chunks(conversation_chunks; conversations);

-- name: fill_memories
-- The digest makes sure that the text did not change meanwhile.
fill(memory_entries; memory_chunks; digest = hermes_digest(%(content)s));

-- name: fill_turns
fill(conversations; conversation_chunks; content = %(content)s);

-- name: bring_tombstones
-- A memory that is stored here was confirmed later, and gets no tombstone. Of several removals of a text, as of themes that an
-- import puts together, the last one counts.
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at, origin)
SELECT DISTINCT ON (given.target, given.digest) %(theme)s, given.target, given.digest, given.removed_at, given.origin
  FROM unnest(%(targets)s::text[], %(digests)s::bytea[], %(times)s::timestamptz[], %(origins)s::text[])
       AS given(target, digest, removed_at, origin)
  LEFT JOIN memory_entries AS m ON m.agent_identity = %(theme)s AND m.target = given.target AND m.digest = given.digest
 WHERE m.id IS NULL
 ORDER BY given.target, given.digest, given.removed_at DESC
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET removed_at = greatest(hermes_tombstones.removed_at, excluded.removed_at),
       origin = CASE WHEN excluded.removed_at > hermes_tombstones.removed_at THEN excluded.origin ELSE hermes_tombstones.origin END;

-- name: bury_removed
-- Memories that were removed at their origin are removed here as well, unless they were confirmed here later.
DELETE FROM memory_entries AS m
 USING unnest(%(targets)s::text[], %(digests)s::bytea[], %(times)s::timestamptz[], %(origins)s::text[])
       AS given(target, digest, removed_at, origin)
 WHERE removed_at_origin();
