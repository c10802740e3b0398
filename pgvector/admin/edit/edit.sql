-- Memories and sessions put right by an operator: edited, forgotten, restored.

-- name: edit_memory
-- Under the same number, as old as it was. Its vectors go with the text.
UPDATE memory_entries
   SET content = %(content)s, embedding = NULL, sig = NULL, code = NULL, embed_after = NULL, updated_at = %(at)s,
       metadata = metadata || %(metadata)s, kind = coalesce(%(kind)s, kind), subject = coalesce(%(subject)s, subject),
       state = coalesce(state, %(state)s)
 WHERE agent_identity = %(theme)s AND id = %(id)s AND digest = hermes_digest(%(old_content)s);

-- name: edit_structure
UPDATE memory_entries
   SET kind = %(kind)s, subject = %(subject)s, scope = %(scope)s, state = %(state)s, expires_at = %(expires_at)s,
       confidence = %(confidence)s, sources = %(sources)s, applies_when = %(applies_when)s, pinned = %(pinned)s,
       updated_at = CASE WHEN %(anew)s THEN %(at)s ELSE updated_at END
 WHERE agent_identity = %(theme)s AND id = %(id)s AND digest = hermes_digest(%(content)s);

-- name: bury_text
-- No file that still holds it brings it back.
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at)
SELECT %(theme)s, %(target)s, hermes_digest(%(content)s), %(at)s
 WHERE EXISTS (SELECT FROM memory_entries WHERE agent_identity = %(theme)s AND id = %(id)s)
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET removed_at = greatest(hermes_tombstones.removed_at, excluded.removed_at);

-- name: count_old_texts
SELECT count(*) AS count FROM memory_history
 WHERE agent_identity = %(theme)s AND old_content IS NOT NULL AND memory_id = ANY(%(ids)s);

-- name: forget_removed
-- What removed memories said, and what said the same.
UPDATE memory_history AS h SET old_content = NULL, old_row = NULL
 WHERE h.agent_identity = %(theme)s AND h.old_content IS NOT NULL
   AND (h.memory_id = ANY(%(ids)s)
        OR h.old_digest IN (SELECT g.digest FROM memory_history AS g
                             WHERE g.agent_identity = %(theme)s AND g.memory_id = ANY(%(ids)s) AND g.old_row IS NOT NULL));

-- name: removed_memories
-- exempt: for the operator, of one theme or of all. What can be brought back, the last removed first; of several removals of one text in a theme the last one.
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
 ORDER BY h.at DESC, h.id DESC;

-- name: held_removals
-- exempt: for the operator, and for doctor: what waits for somebody's word, whichever theme owns it.
SELECT m.id, m.agent_identity AS theme, m.target, left(m.content, %(chars)s) AS content, length(m.content) AS chars,
       f.origin, f.held_at, f.held_why
  FROM hermes_mirror AS f
  JOIN memory_entries AS m ON m.agent_identity = f.agent_identity AND m.target = f.target AND m.digest = f.digest
 WHERE f.held_at IS NOT NULL ORDER BY f.held_at, m.id, f.origin;

-- name: keep_held
-- exempt: as held_removals. These memories stay although the file lacks them.
UPDATE hermes_mirror AS f SET held_at = NULL, held_why = NULL, kept_at = now()
  FROM memory_entries AS m
 WHERE f.held_at IS NOT NULL AND m.id = ANY(%(ids)s)
   AND m.agent_identity = f.agent_identity AND m.target = f.target AND m.digest = f.digest
RETURNING f.agent_identity AS theme, f.target, f.digest;
