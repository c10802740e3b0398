-- Moves and deletes whole themes.

-- name: theme_memory_ids
SELECT id FROM memory_entries WHERE agent_identity = %(theme)s ORDER BY id;

-- name: theme_turn_ids
SELECT id FROM conversations WHERE agent_identity = %(theme)s ORDER BY id;

-- name: memory_digests
SELECT target, digest FROM memory_entries WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s);

-- name: memories_to_merge
-- The vector of a long text is left out: it is of no use without those of the text's other parts.
SELECT id, target, digest, created_at, updated_at, array_to_string(owners, ',') AS owners,
       CASE WHEN NOT EXISTS (SELECT FROM memory_chunks AS k WHERE k.agent_identity = %(theme)s AND k.row_id = m.id)
            THEN m.embedding::text END AS embedding,
       jsonb_build_object('kind', m.kind, 'subject', m.subject, 'scope', m.scope, 'state', m.state, 'expires_at', m.expires_at,
                          'confidence', m.confidence, 'sources', m.sources, 'replaces', m.replaces,
                          'applies_when', m.applies_when, 'pinned', m.pinned)::text AS said
  FROM memory_entries AS m WHERE m.agent_identity = %(theme)s AND m.id = ANY(%(ids)s);

-- name: same_memories
SELECT id, target, digest FROM memory_entries WHERE agent_identity = %(theme)s AND digest = ANY(%(digests)s::bytea[]);

-- name: active_subjects
-- In the form in which the trigger of 006_facts.sql compares them.
SELECT kind, lower(subject) AS subject, coalesce(lower(scope), '') AS scope, digest FROM memory_entries
 WHERE agent_identity = %(theme)s AND state = 'active' AND subject IS NOT NULL;

-- name: merge_memories
-- A memory that both themes hold is kept once, with the older creation time, the newer update time and both rows' owners.
-- Each field takes the later row's value, or the earlier one's if that is NULL. A later row without a state is active.
UPDATE memory_entries AS m
   SET created_at = least(m.created_at, given.created_at), updated_at = greatest(m.updated_at, given.updated_at),
       embedding = CASE WHEN coalesce(later_state(), 'active') IN ('active', 'closed')
                        THEN coalesce(m.embedding, given.embedding) ELSE m.embedding END,
       -- A row with a vector but no signature is not recalled. A superseded or archived one must not be, so it gets neither.
       sig = CASE WHEN m.embedding IS NULL AND coalesce(later_state(), 'active') IN ('active', 'closed')
                  THEN binary_quantize(given.embedding) ELSE m.sig END,
       code = CASE WHEN m.embedding IS NULL AND coalesce(later_state(), 'active') IN ('active', 'closed')
                   THEN hermes_code(given.embedding) ELSE m.code END,
       owners = ARRAY(SELECT DISTINCT owner FROM unnest(m.owners || string_to_array(given.owners, ',')) AS owner),
       state = later_state(),
       kind = of_later(kind),
       subject = of_later(subject),
       scope = of_later(scope),
       expires_at = of_later(expires_at),
       confidence = of_later(confidence),
       sources = of_later(sources),
       replaces = of_later(replaces),
       applies_when = of_later(applies_when),
       pinned = of_later(pinned)
  FROM unnest(%(ids)s::bigint[], %(created)s::timestamptz[], %(updated)s::timestamptz[], %(embeddings)s::vector[],
              %(owners)s::text[], %(said)s::jsonb[]) AS given(id, created_at, updated_at, embedding, owners, said)
 CROSS JOIN LATERAL jsonb_to_record(given.said)
       AS said(kind text, subject text, scope text, state text, expires_at timestamptz, confidence real, sources bigint[],
               replaces bigint, applies_when text, pinned boolean)
 WHERE m.agent_identity = %(theme)s AND m.id = given.id;

-- name: hand_over_texts
-- What merged memories said before, as earlier texts of those that are kept in their place.
INSERT INTO memory_history (agent_identity, memory_id, target, action, who, chars, digest, old_chars, old_digest, old_content)
SELECT %(into)s, given.kept, h.target, h.action, %(who)s, h.chars, h.digest, h.old_chars, h.old_digest, h.old_content
  FROM memory_history AS h
  JOIN unnest(%(ids)s::bigint[], %(kept)s::bigint[]) AS given(id, kept) ON given.id = h.memory_id
 WHERE h.agent_identity = %(theme)s AND h.action = 'replaced' AND h.old_content IS NOT NULL
 ORDER BY h.id;

-- name: note_merged
INSERT INTO memory_history (agent_identity, memory_id, target, action, who, chars, digest)
SELECT agent_identity, id, target, 'removed', %(who)s, length(content), substr(digest, 1, 8)
  FROM memory_entries WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s);

-- name: relink_merged
-- What took the place of a merged memory took that of the one that is kept.
UPDATE memory_entries AS m SET replaces = given.kept
  FROM unnest(%(ids)s::bigint[], %(kept)s::bigint[]) AS given(id, kept)
 WHERE m.agent_identity = %(theme)s AND m.replaces = given.id;

-- name: delete_merged
DELETE FROM memory_entries WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s);

-- name: own_columns
-- exempt: reads the catalogue only. The columns that are written again when a row moves to another theme.
SELECT attname::text AS name FROM pg_attribute
 WHERE attrelid = %(table)s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attname <> 'agent_identity'
 ORDER BY attnum;

-- name: begin_moves
-- exempt: touches no table. Tells triggers where rows come from and go to, until `end_moves` or the transaction's end.
SET LOCAL hermes_pgvector.moved_from = {theme};
SET LOCAL hermes_pgvector.moved_to = {into};

-- name: end_moves
-- exempt: touches no table.
SET LOCAL hermes_pgvector.moved_from = '';

-- name: lock_rows
SELECT id FROM {table} WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s) ORDER BY id FOR UPDATE;

-- name: move_rows
-- Deletes and inserts instead of updating: in tables distributed by theme a row cannot change its theme.
WITH moved AS (DELETE FROM {table} WHERE agent_identity = %(theme)s AND {number} = ANY(%(ids)s) RETURNING {columns})
INSERT INTO {table} (agent_identity, {columns}) SELECT %(into)s, {columns} FROM moved;

-- name: move_operations
-- The operations also stay under the old name, because those still in a spool file name the old theme.
INSERT INTO hermes_operations (agent_identity, op_id, applied_at)
SELECT %(into)s, op_id, applied_at FROM hermes_operations WHERE agent_identity = %(theme)s
ON CONFLICT DO NOTHING;

-- name: move_tombstones
WITH moved AS (DELETE FROM hermes_tombstones WHERE agent_identity = %(theme)s RETURNING target, digest, removed_at, origin)
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at, origin)
SELECT %(into)s, target, digest, removed_at, origin FROM moved
ON CONFLICT (agent_identity, target, digest) DO UPDATE SET last_removal();

-- name: move_mirrored
WITH moved AS (
    DELETE FROM hermes_mirror WHERE agent_identity = %(theme)s
    RETURNING origin, target, digest, announced, noted_at, held_at, held_why, kept_at)
INSERT INTO hermes_mirror (agent_identity, origin, target, digest, announced, noted_at, held_at, held_why, kept_at)
SELECT %(into)s, origin, target, digest, announced, noted_at, held_at, held_why, kept_at FROM moved
ON CONFLICT (agent_identity, origin, target, digest) DO UPDATE
   SET announced = hermes_mirror.announced OR excluded.announced,
       noted_at = greatest(hermes_mirror.noted_at, excluded.noted_at);

-- name: move_proposals
WITH moved AS (
    DELETE FROM hermes_proposals WHERE agent_identity = %(theme)s
    RETURNING id, target, content, kind, subject, scope, confidence, sources, said_at, proposed_at, rejected_at, metadata)
INSERT INTO hermes_proposals (agent_identity, id, target, content, kind, subject, scope, confidence, sources, said_at, proposed_at,
                              rejected_at, metadata)
SELECT %(into)s, id, target, content, kind, subject, scope, confidence, sources, said_at, proposed_at, rejected_at, metadata
  FROM moved;

-- name: move_read_turns
WITH moved AS (DELETE FROM hermes_read_turns WHERE agent_identity = %(theme)s RETURNING turn_id, read_at, proposals)
INSERT INTO hermes_read_turns (agent_identity, turn_id, read_at, proposals) SELECT %(into)s, turn_id, read_at, proposals FROM moved
ON CONFLICT DO NOTHING;

-- name: move_history
-- exempt: the function names the theme.
SELECT hermes_move_history(%(theme)s, %(into)s, current_user);

-- name: clear_live_tombstones
-- A memory that one theme had removed and the other one holds is kept, so its tombstone is deleted.
DELETE FROM hermes_tombstones AS t USING memory_entries AS m
 WHERE t.agent_identity = %(theme)s AND m.agent_identity = t.agent_identity AND m.target = t.target AND m.digest = t.digest;

-- name: texts_kept
SELECT count(*) AS count FROM memory_history WHERE agent_identity = %(theme)s AND old_content IS NOT NULL;

-- name: delete_history
DELETE FROM memory_history WHERE agent_identity = %(theme)s;

-- name: forget_retention
DELETE FROM hermes_retention WHERE agent_identity = %(theme)s;

-- name: read_maintenance
-- exempt: the log of operators' changes, no stored text.
SELECT id, done_at AS at, db_role, os_user, host, verb, arguments, counts FROM hermes_maintenance ORDER BY id DESC LIMIT %(limit)s;
