-- Memories and sessions corrected by an operator: edited, forgotten, restored.

-- name: edit_memory
-- The id and the age stay. The vectors are cleared with the text. A memory that only a file kept is now kept by the edit.
UPDATE memory_entries
   SET content = %(content)s, owners = CASE WHEN owners = '{}' THEN '{edit}' ELSE owners END, embedding = NULL, sig = NULL, code = NULL, embed_after = NULL, updated_at = %(at)s,
       metadata = metadata || %(metadata)s, kind = coalesce(%(said_kind)s, kind, %(kind)s), subject = coalesce(%(subject)s, subject),
       state = CASE WHEN coalesce(state, 'active') = 'active' THEN coalesce(%(state)s, state) ELSE state END
 WHERE agent_identity = %(theme)s AND id = %(id)s AND digest = hermes_digest(%(old_content)s);

-- name: edit_structure
UPDATE memory_entries
   SET kind = %(kind)s, subject = %(subject)s, scope = %(scope)s, state = %(state)s, expires_at = %(expires_at)s,
       confidence = %(confidence)s, sources = %(sources)s, applies_when = %(applies_when)s, pinned = %(pinned)s,
       updated_at = CASE WHEN %(anew)s THEN %(at)s ELSE updated_at END
 WHERE agent_identity = %(theme)s AND id = %(id)s AND digest = hermes_digest(%(content)s);

-- name: history_end
-- exempt: touches no stored text.
SELECT coalesce(max(id), 0) AS id FROM memory_history;

-- name: superseded_since
-- Memories of a theme, except one, that were superseded after an entry of the history.
SELECT DISTINCT memory_id AS id FROM memory_history
 WHERE agent_identity = %(theme)s AND id > %(before)s AND action = 'superseded' AND memory_id <> %(id)s ORDER BY memory_id;

-- name: bury_text
-- So that no file that still holds the text brings it back.
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at)
SELECT %(theme)s, %(target)s, hermes_digest(%(content)s), %(at)s
 WHERE EXISTS (SELECT FROM memory_entries WHERE agent_identity = %(theme)s AND id = %(id)s)
ON CONFLICT (agent_identity, target, digest) DO UPDATE SET last_removal();

-- name: count_old_texts
SELECT count(*) AS count FROM memory_history
 WHERE agent_identity = %(theme)s AND old_content IS NOT NULL AND memory_id = ANY(%(ids)s);

-- name: out_of_recall
-- Memories of which each of these patterns matches a text that recall does not find: because it is superseded, archived or
-- expired, or what the memory said before, or what can be restored.
SELECT m.id, 'hidden' AS why FROM memory_entries AS m
 WHERE m.agent_identity = %(theme)s AND NOT (is_current(m)) AND m.content ILIKE ALL (%(patterns)s::text[])
   AND (%(target)s::text IS NULL OR m.target = %(target)s)
UNION
SELECT h.memory_id, CASE WHEN m.id IS NULL THEN 'removed' ELSE 'earlier' END
  FROM memory_history AS h
  LEFT JOIN memory_entries AS m ON m.agent_identity = %(theme)s AND m.id = h.memory_id
 WHERE h.agent_identity = %(theme)s AND h.old_content ILIKE ALL (%(patterns)s::text[]) AND h.old_content IS DISTINCT FROM m.content
   AND (%(target)s::text IS NULL OR h.target = %(target)s)
 ORDER BY id, why;

-- name: forget_removed
-- Clears the texts of removed memories, and of others that said the same.
UPDATE memory_history AS h SET old_content = NULL, old_row = NULL
 WHERE h.agent_identity = %(theme)s AND h.old_content IS NOT NULL
   AND (h.memory_id = ANY(%(ids)s)
        OR h.old_digest IN (SELECT g.digest FROM memory_history AS g
                             WHERE g.agent_identity = %(theme)s AND g.memory_id = ANY(%(ids)s) AND g.old_row IS NOT NULL));

-- name: removed_memories
-- exempt: for the operator, of one theme or of all. What can be restored, the last removed first; of several removals
-- of one text in a theme, the last one. A memory that was restored and then replaced is left out, because another text
-- took its place. What a merged memory said before, which the one that is kept got later, does not count as that.
SELECT DISTINCT ON (h.at, h.id) h.id AS removal, h.memory_id AS id, h.agent_identity AS theme, h.target, h.at,
       left(h.old_content, %(chars)s) AS content, length(h.old_content) AS chars, h.who
  FROM memory_history AS h
 WHERE h.old_row IS NOT NULL AND h.old_content IS NOT NULL
   AND (%(theme)s::text IS NULL OR h.agent_identity = %(theme)s)
   AND (%(ids)s::bigint[] IS NULL OR h.memory_id = ANY(%(ids)s))
   AND h.at >= %(since)s::timestamptz
   AND NOT EXISTS (SELECT FROM memory_entries AS m
                    WHERE m.agent_identity = h.agent_identity AND m.target = h.target AND m.digest = hermes_digest(h.old_content))
   AND NOT EXISTS (SELECT FROM memory_history AS later
                    WHERE later.digest = h.digest AND later.old_row IS NOT NULL AND later.id > h.id
                      AND later.agent_identity = h.agent_identity AND later.target = h.target
                      AND later.old_content = h.old_content)
   AND NOT EXISTS (SELECT FROM memory_history AS later
                    WHERE later.agent_identity = h.agent_identity AND later.old_digest = h.digest AND later.old_content IS NOT NULL
                      AND later.action = 'replaced' AND later.who ->> 'verb' IS DISTINCT FROM 'merge'
                      AND later.target = h.target AND later.id > h.id)
 ORDER BY h.at DESC, h.id DESC
 LIMIT %(limit)s::bigint OFFSET %(offset)s::bigint;

-- name: held_removals
-- exempt: for the operator, and for doctor: the removals that wait for a decision, whichever theme owns them.
SELECT m.id, m.agent_identity AS theme, m.target, left(m.content, %(chars)s) AS content, length(m.content) AS chars,
       f.origin, f.held_at, f.held_why, m.owners
  FROM hermes_mirror AS f
  JOIN memory_entries AS m ON m.agent_identity = f.agent_identity AND m.target = f.target AND m.digest = f.digest
 WHERE f.held_at IS NOT NULL ORDER BY f.held_at, m.id, f.origin;

-- name: lock_held
-- Returns a theme's removals that still wait, and locks them against changes until this transaction ends.
SELECT m.id, f.agent_identity AS theme, f.origin, m.owners
  FROM hermes_mirror AS f
  JOIN memory_entries AS m ON m.agent_identity = f.agent_identity AND m.target = f.target AND m.digest = f.digest
 WHERE f.agent_identity = %(theme)s AND f.held_at IS NOT NULL AND m.id = ANY(%(ids)s)
 ORDER BY m.id, f.origin FOR UPDATE OF f;

-- name: keep_held
-- exempt: as held_removals. These memories stay although the file lacks them.
UPDATE hermes_mirror AS f SET held_at = NULL, held_why = NULL, kept_at = now()
  FROM memory_entries AS m
 WHERE f.held_at IS NOT NULL AND m.id = ANY(%(ids)s)
   AND m.agent_identity = f.agent_identity AND m.target = f.target AND m.digest = f.digest
RETURNING f.agent_identity AS theme, f.target, f.digest;

-- name: themes_of_memories
-- exempt: names for the operator, no stored text.
-- A removed memory is found if the history has a text of it.
SELECT id, agent_identity AS theme FROM memory_entries WHERE id = ANY(%(ids)s)
UNION
SELECT memory_id, agent_identity FROM memory_history WHERE memory_id = ANY(%(ids)s) AND old_row IS NOT NULL
ORDER BY id;

-- name: themes_of_turns
-- exempt: names for the operator, no stored text.
SELECT id, agent_identity AS theme FROM conversations WHERE id = ANY(%(ids)s) ORDER BY id;

-- name: turns_of_session
SELECT id FROM conversations WHERE agent_identity = %(theme)s AND session_id = %(session_id)s ORDER BY id;

-- name: actives_of_subjects
-- Active memories of these subjects, or of the subjects of these memories, or of a scope of that name: see close_scope.
WITH meant AS (
    SELECT unnest(%(subjects)s::text[]) AS subject
    UNION SELECT lower(subject) FROM memory_entries
           WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s) AND subject IS NOT NULL)
SELECT m.id FROM memory_entries AS m
 WHERE m.agent_identity = %(theme)s AND m.state = 'active'
   AND EXISTS (SELECT FROM meant
                WHERE lower(m.scope) = meant.subject OR lower(m.subject) = meant.subject
                   OR starts_with(lower(m.subject), meant.subject || '.'))
 ORDER BY m.id;

-- name: memory_images
-- The present rows as JSON, for undoing a change; without vectors and generated columns.
SELECT m.id, m.target, m.digest, image.said::text AS image
  FROM memory_entries AS m
 CROSS JOIN LATERAL (SELECT jsonb_build_object(
           'id', m.id, 'agent_identity', m.agent_identity, 'target', m.target, 'content', m.content,
           'created_at', m.created_at, 'updated_at', m.updated_at, 'metadata', m.metadata, 'text_language', m.text_language,
           'owners', m.owners, 'kind', m.kind, 'subject', m.subject, 'scope', m.scope, 'state', m.state,
           'expires_at', m.expires_at, 'confidence', m.confidence, 'sources', m.sources, 'replaces', m.replaces,
           'applies_when', m.applies_when, 'pinned', m.pinned) AS said) AS image
 WHERE m.agent_identity = %(theme)s AND m.id = ANY(%(ids)s) ORDER BY m.id;

-- name: turn_images
SELECT c.id, jsonb_build_object(
           'id', c.id, 'agent_identity', c.agent_identity, 'session_id', c.session_id, 'role', c.role, 'content', c.content,
           'ts', c.ts, 'metadata', c.metadata, 'text_language', c.text_language)::text AS image
  FROM conversations AS c WHERE c.agent_identity = %(theme)s AND c.id = ANY(%(ids)s) ORDER BY c.id;

-- name: mark_images
-- What is recorded about texts outside of the rows that hold them.
SELECT given.target, given.digest,
       (SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]') FROM hermes_tombstones AS t
         WHERE t.agent_identity = %(theme)s AND t.target = given.target AND t.digest = given.digest)::text AS tombstones,
       (SELECT coalesce(jsonb_agg(to_jsonb(f) ORDER BY f.origin), '[]') FROM hermes_mirror AS f
         WHERE f.agent_identity = %(theme)s AND f.target = given.target AND f.digest = given.digest)::text AS mirrored
  FROM unnest(%(targets)s::text[], %(digests)s::bytea[]) AS given(target, digest);

-- name: history_images
-- The earlier texts in the history that are deleted with these memories, or with another one of the same words.
SELECT h.id, h.old_content, h.old_row::text AS old_row FROM memory_history AS h
 WHERE h.agent_identity = %(theme)s AND h.old_content IS NOT NULL
   AND (h.memory_id = ANY(%(ids)s)
        OR h.old_digest IN (SELECT substr(given, 1, 8) FROM unnest(%(digests)s::bytea[]) AS given
                            UNION SELECT g.digest FROM memory_history AS g
                                   WHERE g.agent_identity = %(theme)s AND g.memory_id = ANY(%(ids)s) AND g.old_row IS NOT NULL));

-- name: delete_memories
DELETE FROM memory_entries WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s);

-- name: says_it_already
-- Finds another memory with the same text as one of these had.
SELECT m.id FROM unnest(%(images)s::text[]) AS given(image)
 CROSS JOIN LATERAL jsonb_to_record(given.image::jsonb) AS old(id bigint, target text, content text)
  JOIN memory_entries AS m ON m.agent_identity = %(theme)s AND m.target = old.target AND m.digest = hermes_digest(old.content)
 WHERE m.id <> old.id LIMIT 1;

-- name: insert_memories_images
INSERT INTO memory_entries (id, agent_identity, target, content, created_at, updated_at, metadata, text_language, owners,
                            kind, subject, scope, state, expires_at, confidence, sources, replaces, applies_when, pinned)
SELECT old.id, %(theme)s, old.target, old.content, old.created_at, old.updated_at, old.metadata, old.text_language, old.owners,
       old.kind, old.subject, old.scope, old.state, old.expires_at, old.confidence, old.sources, old.replaces,
       old.applies_when, old.pinned
  FROM unnest(%(images)s::text[]) AS given(image)
 CROSS JOIN LATERAL jsonb_populate_record(NULL::memory_entries, given.image::jsonb) AS old
 WHERE old.agent_identity = %(theme)s;

-- name: insert_turns_images
INSERT INTO conversations (id, agent_identity, session_id, role, content, ts, metadata, text_language)
SELECT old.id, %(theme)s, old.session_id, old.role, old.content, old.ts, old.metadata, old.text_language
  FROM unnest(%(images)s::text[]) AS given(image)
 CROSS JOIN LATERAL jsonb_populate_record(NULL::conversations, given.image::jsonb) AS old
 WHERE old.agent_identity = %(theme)s;

-- name: put_back_text
UPDATE memory_entries
   SET content = %(image)s::jsonb ->> 'content', embedding = NULL, sig = NULL, code = NULL, embed_after = NULL
 WHERE agent_identity = %(theme)s AND id = %(id)s AND content <> %(image)s::jsonb ->> 'content';

-- name: put_back_memory
-- Restores everything about a memory except its text.
UPDATE memory_entries AS m
   SET created_at = old.created_at, updated_at = old.updated_at, metadata = old.metadata, text_language = old.text_language,
       owners = old.owners, kind = old.kind, subject = old.subject, scope = old.scope, state = old.state,
       expires_at = old.expires_at, confidence = old.confidence, sources = old.sources, replaces = old.replaces,
       applies_when = old.applies_when, pinned = old.pinned
  FROM jsonb_populate_record(NULL::memory_entries, %(image)s::jsonb) AS old
 WHERE m.agent_identity = %(theme)s AND m.id = %(id)s;

-- name: drop_tombstones
DELETE FROM hermes_tombstones AS t USING unnest(%(targets)s::text[], %(digests)s::bytea[]) AS given(target, digest)
 WHERE t.agent_identity = %(theme)s AND t.target = given.target AND t.digest = given.digest;

-- name: drop_mirrored
DELETE FROM hermes_mirror AS f USING unnest(%(targets)s::text[], %(digests)s::bytea[]) AS given(target, digest)
 WHERE f.agent_identity = %(theme)s AND f.target = given.target AND f.digest = given.digest;

-- name: put_back_tombstones
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at, origin)
SELECT %(theme)s, old.target, old.digest, old.removed_at, old.origin
  FROM unnest(%(tombstones)s::text[]) AS given(image)
 CROSS JOIN LATERAL jsonb_populate_recordset(NULL::hermes_tombstones, given.image::jsonb) AS old
 WHERE old.agent_identity = %(theme)s;

-- name: put_back_mirrored
INSERT INTO hermes_mirror (agent_identity, origin, target, digest, announced, noted_at, held_at, held_why, kept_at)
SELECT %(theme)s, old.origin, old.target, old.digest, old.announced, old.noted_at, old.held_at, old.held_why, old.kept_at
  FROM unnest(%(mirrored)s::text[]) AS given(image)
 CROSS JOIN LATERAL jsonb_populate_recordset(NULL::hermes_mirror, given.image::jsonb) AS old
 WHERE old.agent_identity = %(theme)s;

-- name: put_back_history
UPDATE memory_history AS h SET old_content = given.content, old_row = given.old_row::jsonb
  FROM unnest(%(ids)s::bigint[], %(contents)s::text[], %(rows)s::text[]) AS given(id, content, old_row)
 WHERE h.agent_identity = %(theme)s AND h.id = given.id AND h.old_content IS NULL;

-- name: lacking_vectors_memories
SELECT id, content FROM memory_entries
 WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s) AND embedding IS NULL AND sig IS NULL ORDER BY id;

-- name: lacking_vectors_turns
SELECT id, content FROM conversations
 WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s) AND embedding IS NULL AND sig IS NULL ORDER BY id;

-- name: moment
-- exempt: touches no table. The time at which this transaction began.
SELECT now() AS at;

-- name: log_end
-- exempt: touches no stored text.
SELECT coalesce(max(id), 0) AS id FROM hermes_maintenance;

-- name: done_since
-- exempt: names for the operator. Finds what was done after an entry of the log and not undone: one of these themes
-- renamed, merged or deleted, a session forgotten, or an earlier text of one of these rows. Compares the entries'
-- numbers, because a clock may be set back.
SELECT found.kind, CASE found.kind WHEN 'theme' THEN found.theme ELSE found.session END AS name
  FROM hermes_maintenance AS l
 CROSS JOIN LATERAL (
       SELECT CASE WHEN l.verb IN ('rename', 'merge', 'delete') AND l.arguments ->> 'theme' = ANY(%(themes)s::text[]) THEN 'theme'
                   WHEN l.verb LIKE '%%forget' AND l.arguments ->> 'session' = ANY(%(sessions)s::text[])
                        AND l.arguments -> 'themes' ?| %(themes)s::text[]
                        OR l.verb = 'prune' AND l.arguments ->> 'session_id' = ANY(%(sessions)s::text[]) THEN 'session'
                   WHEN l.verb LIKE '%%forget' AND l.counts ? 'texts' AND l.arguments -> 'rows' ?| %(refs)s::text[] THEN 'texts'
              END AS kind,
              l.arguments ->> 'theme' AS theme,
              coalesce(l.arguments ->> 'session', l.arguments ->> 'session_id') AS session) AS found
 WHERE l.id > %(log_end)s AND found.kind IS NOT NULL
   AND NOT EXISTS (SELECT FROM hermes_maintenance AS undone
                    WHERE undone.id > l.id AND (undone.arguments ->> 'undone')::timestamptz = l.done_at)
 LIMIT 1;
