-- Imports from other databases, files and programs, and exports to them.

-- name: lock_arrivals
-- exempt: touches no table. Imports are serialised: two at once would both find a turn missing. So are changes of
-- themes: rows that one moves meanwhile would be missing under the name they had.
SELECT pg_advisory_xact_lock_shared(731057945), pg_advisory_xact_lock(731057950);

-- name: try_hold_space
-- exempt: touches no table. As hold_space, without waiting.
SELECT pg_try_advisory_xact_lock_shared(731057947) AS got;

-- name: missing_turns
-- Which of the given turns are in none of their `themes`: their own and those that its rows were moved to. A turn is
-- the same if session, time, role and text are; within `near_s` of that time the same text counts as well, if it came from
-- another source. A subquery with a LIMIT walks the session's index once for each turn.
SELECT given.number
  FROM unnest(%(themes)s::jsonb[], %(sessions)s::text[], %(roles)s::text[], %(times)s::timestamptz[], %(digests)s::bytea[],
              %(sources)s::text[])
       WITH ORDINALITY AS given(themes, session_id, role, ts, digest, source, number)
 WHERE (SELECT true FROM conversations AS c
         WHERE c.session_id = given.session_id
           AND c.ts BETWEEN given.ts - make_interval(secs => %(near_s)s) AND given.ts + make_interval(secs => %(near_s)s)
           AND given.themes ? c.agent_identity AND c.role = given.role
           AND (c.ts = given.ts OR coalesce(c.metadata ->> 'source', '') <> given.source)
           AND hermes_digest(c.content) = given.digest
         LIMIT 1) IS NULL
 ORDER BY given.number;

-- name: bring_turns
INSERT INTO conversations (agent_identity, id, session_id, role, content, ts, embedding, metadata, text_language)
SELECT * FROM unnest(%(themes)s::text[], %(ids)s::bigint[], %(sessions)s::text[], %(roles)s::text[], %(contents)s::text[],
                     %(times)s::timestamptz[], %(embeddings)s::vector[], %(metadata)s::jsonb[], %(languages)s::text[]);

-- name: known_memories
-- For each of the given memories its id, if one of its `themes` holds it, its own or one that its rows were moved to, when it
-- was removed, if it was, and whether a memory file of a host held it when that was last read.
WITH in_files AS MATERIALIZED (
    SELECT agent_identity, target, digest FROM hermes_mirror
     WHERE agent_identity IN (SELECT jsonb_array_elements_text(each) FROM unnest(%(themes)s::jsonb[]) AS each))
SELECT given.number,
       (SELECT m.id FROM memory_entries AS m
         WHERE m.agent_identity = ANY(given.themes) AND m.target = given.target AND m.digest = given.digest
         LIMIT 1) AS id,
       (SELECT max(t.removed_at) FROM hermes_tombstones AS t
         WHERE t.agent_identity = ANY(given.themes) AND t.target = given.target AND t.digest = given.digest) AS removed_at,
       (SELECT bool_or((theme, given.target, given.digest) IN (SELECT * FROM in_files)) FROM unnest(given.themes) AS theme)
           AS in_file
  FROM (SELECT ARRAY(SELECT jsonb_array_elements_text(listed)) AS themes, target, digest, number
          FROM unnest(%(themes)s::jsonb[], %(targets)s::text[], %(digests)s::bytea[])
               WITH ORDINALITY AS given(listed, target, digest, number)) AS given
 ORDER BY given.number;

-- name: bring_memories
INSERT INTO memory_entries (agent_identity, id, target, content, created_at, updated_at, embedding, metadata, text_language,
                            owners, kind, subject, scope, state, expires_at, confidence, applies_when, pinned)
SELECT theme, id, target, content, created_at, updated_at, embedding, metadata, language, string_to_array(owners, ','),
       kind, subject, scope, state, expires_at, confidence, applies_when, pinned
  FROM unnest(%(themes)s::text[], %(ids)s::bigint[], %(targets)s::text[], %(contents)s::text[],
              %(created)s::timestamptz[], %(updated)s::timestamptz[], %(embeddings)s::vector[], %(metadata)s::jsonb[],
              %(languages)s::text[], %(owners)s::text[], %(kind)s::text[], %(subject)s::text[], %(scope)s::text[],
              %(state)s::text[], %(expires_at)s::timestamptz[], %(confidence)s::real[], %(applies_when)s::text[],
              %(pinned)s::boolean[])
       AS given(theme, id, target, content, created_at, updated_at, embedding, metadata, language, owners,
                kind, subject, scope, state, expires_at, confidence, applies_when, pinned);

-- name: confirm_structure
-- A memory that is stored already takes the given fields that it lacks, or all of them if they were said later. Its state since
-- then is kept: an old copy does not bring back what was closed, superseded or archived.
UPDATE memory_entries AS m
   SET kind = CASE WHEN given.later THEN coalesce(given.said_kind, m.kind, given.kind) ELSE coalesce(m.kind, given.kind) END,
       subject = CASE WHEN given.later THEN coalesce(given.subject, m.subject) ELSE coalesce(m.subject, given.subject) END,
       scope = CASE WHEN given.later THEN coalesce(given.scope, m.scope) ELSE coalesce(m.scope, given.scope) END,
       state = CASE WHEN given.later OR coalesce(m.state, 'active') = 'active' THEN coalesce(given.state, m.state)
                    ELSE m.state END,
       expires_at = CASE WHEN given.later THEN coalesce(given.expires_at, m.expires_at)
                         ELSE coalesce(m.expires_at, given.expires_at) END,
       confidence = CASE WHEN given.later THEN coalesce(given.confidence, m.confidence)
                         ELSE coalesce(m.confidence, given.confidence) END,
       applies_when = CASE WHEN given.later THEN coalesce(given.applies_when, m.applies_when)
                           ELSE coalesce(m.applies_when, given.applies_when) END,
       pinned = CASE WHEN given.later THEN coalesce(given.pinned, m.pinned) ELSE coalesce(m.pinned, given.pinned) END
  FROM (SELECT each.*, old.updated_at < each.updated_at AS later
          FROM unnest(%(themes)s::text[], %(ids)s::bigint[], %(updated)s::timestamptz[], %(said_kind)s::text[], %(kind)s::text[], %(subject)s::text[],
                      %(scope)s::text[], %(state)s::text[], %(expires_at)s::timestamptz[], %(confidence)s::real[],
                      %(applies_when)s::text[], %(pinned)s::boolean[])
               AS each(theme, id, updated_at, said_kind, kind, subject, scope, state, expires_at, confidence, applies_when, pinned)
          JOIN memory_entries AS old ON old.id = each.id AND old.agent_identity = each.theme
         WHERE old.updated_at <= each.updated_at) AS given
 WHERE m.id = given.id AND m.agent_identity = given.theme AND m.agent_identity = ANY(%(themes)s::text[]);

-- name: link_replaced
-- Records which memory replaced which; both are given by their texts.
UPDATE memory_entries AS m SET replaces = old.id
  FROM unnest(%(themes)s::text[], %(targets)s::text[], %(digests)s::bytea[], %(old_targets)s::text[], %(old_digests)s::bytea[])
       AS given(theme, target, digest, old_target, old_digest)
  JOIN memory_entries AS old
    ON old.agent_identity = given.theme AND old.target = given.old_target AND old.digest = given.old_digest
 WHERE m.agent_identity = given.theme AND m.target = given.target AND m.digest = given.digest AND m.id <> old.id
   AND m.replaces IS NULL AND m.agent_identity = ANY(%(themes)s::text[]);

-- name: link_sources
-- Records the turns that a memory was taken from; those that are not stored here are left out.
WITH found AS (
    SELECT given.theme, given.target, given.digest, array_agg(DISTINCT c.id) AS turns
      FROM unnest(%(themes)s::text[], %(targets)s::text[], %(digests)s::bytea[], %(sessions)s::text[], %(roles)s::text[],
                  %(times)s::timestamptz[], %(turn_digests)s::bytea[])
           AS given(theme, target, digest, session_id, role, ts, turn_digest)
      JOIN conversations AS c ON c.session_id = given.session_id AND c.ts = given.ts AND c.role = given.role
                             AND c.agent_identity = given.theme AND hermes_digest(c.content) = given.turn_digest
     GROUP BY 1, 2, 3)
UPDATE memory_entries AS m SET sources = found.turns FROM found
 WHERE m.agent_identity = found.theme AND m.target = found.target AND m.digest = found.digest AND m.sources IS NULL
   AND m.agent_identity = ANY(%(themes)s::text[]);

-- name: unlinked
-- How many of the given memories lack the memory that they replaced, or some of their turns.
SELECT count(*) FILTER (WHERE given.replaced AND m.replaces IS NULL) AS replaced,
       count(*) FILTER (WHERE given.turns > coalesce(cardinality(m.sources), 0)) AS sources
  FROM unnest(%(themes)s::text[], %(targets)s::text[], %(digests)s::bytea[], %(replaced)s::boolean[], %(turns)s::integer[])
       AS given(theme, target, digest, replaced, turns)
  JOIN memory_entries AS m ON m.agent_identity = given.theme AND m.target = given.target AND m.digest = given.digest;

-- name: confirm_memories
-- A memory that is stored already gets the earlier creation and the later confirmation of the two, and the owners of both. If
-- it came from the same source without its platform, which decides who may read it, it gets that now.
UPDATE memory_entries AS m
   SET created_at = least(m.created_at, given.created_at), updated_at = greatest(m.updated_at, given.updated_at),
       owners = ARRAY(SELECT DISTINCT owner FROM unnest(m.owners || string_to_array(given.owners, ',')) AS owner),
       metadata = CASE WHEN m.metadata ->> 'source' = given.metadata ->> 'source' AND NOT m.metadata ? 'platform'
                       THEN given.metadata || m.metadata ELSE m.metadata END
  FROM unnest(%(themes)s::text[], %(ids)s::bigint[], %(created)s::timestamptz[], %(updated)s::timestamptz[],
              %(owners)s::text[], %(metadata)s::jsonb[]) AS given(theme, id, created_at, updated_at, owners, metadata)
 WHERE m.id = given.id AND m.agent_identity = given.theme AND m.agent_identity = ANY(%(themes)s::text[])
   AND (m.created_at > given.created_at OR m.updated_at < given.updated_at
        OR NOT m.owners @> string_to_array(given.owners, ',')
        OR (m.metadata ->> 'source' = given.metadata ->> 'source' AND NOT m.metadata ? 'platform' AND given.metadata ? 'platform'));

-- name: lift_tombstones
DELETE FROM hermes_tombstones AS t
 USING unnest(%(themes)s::text[], %(targets)s::text[], %(digests)s::bytea[]) AS given(theme, target, digest)
 WHERE t.agent_identity = given.theme AND t.target = given.target AND t.digest = given.digest
   AND t.agent_identity = ANY(%(themes)s::text[]);

-- name: bring_chunks_memories
-- Memories that are not recalled get no chunks.
INSERT INTO memory_chunks (row_id, part, agent_identity, first_char, embedding, sig)
SELECT row_id, part, theme, first_char, embedding, binary_quantize(embedding)
  FROM unnest(%(themes)s::text[], %(row_ids)s::bigint[], %(parts)s::integer[], %(first_chars)s::integer[],
              %(embeddings)s::vector[]) AS given(theme, row_id, part, first_char, embedding)
 WHERE NOT EXISTS (SELECT FROM memory_entries AS m
                    WHERE m.agent_identity = given.theme AND m.id = given.row_id AND m.state IN ('superseded', 'archived'));

-- name: bring_chunks_turns
INSERT INTO conversation_chunks (row_id, part, agent_identity, first_char, embedding, sig)
SELECT row_id, part, theme, first_char, embedding, binary_quantize(embedding)
  FROM unnest(%(themes)s::text[], %(row_ids)s::bigint[], %(parts)s::integer[], %(first_chars)s::integer[],
              %(embeddings)s::vector[]) AS given(theme, row_id, part, first_char, embedding);

-- name: leaving_memory_ids
-- Sorted by an expression: else a planner that expects an early end would walk every theme's rows in the order of ids.
SELECT id FROM memory_entries
 WHERE agent_identity = %(theme)s
   AND (%(since)s::timestamptz IS NULL OR updated_at >= %(since)s) AND (%(until)s::timestamptz IS NULL OR updated_at < %(until)s)
 ORDER BY id + 0;

-- name: leaving_turn_ids
SELECT id FROM conversations
 WHERE agent_identity = %(theme)s
   AND (%(since)s::timestamptz IS NULL OR ts >= %(since)s) AND (%(until)s::timestamptz IS NULL OR ts < %(until)s)
 ORDER BY id + 0;

-- name: leaving_memories
-- `said`: what a memory says of itself besides its text. It names other rows by content, as ids differ between databases.
SELECT m.id, m.target, m.content, m.created_at, m.updated_at, m.metadata, m.owners,
       CASE WHEN %(vectors)s::boolean THEN m.embedding END AS embedding,
       CASE WHEN m.kind IS NOT NULL OR m.subject IS NOT NULL OR m.scope IS NOT NULL OR m.state IS NOT NULL
              OR m.expires_at IS NOT NULL OR m.confidence IS NOT NULL OR m.applies_when IS NOT NULL OR m.pinned IS NOT NULL
              OR m.replaces IS NOT NULL OR m.sources IS NOT NULL
            THEN jsonb_strip_nulls(jsonb_build_object(
                'kind', m.kind, 'subject', m.subject, 'scope', m.scope, 'state', m.state,
                'expires_at', CASE WHEN isfinite(m.expires_at) THEN extract(epoch FROM m.expires_at) END, 'confidence', m.confidence, 'when', m.applies_when,
                'pinned', m.pinned,
                'replaces', (SELECT jsonb_build_object('target', old.target, 'sha256', encode(old.digest, 'hex'))
                               FROM memory_entries AS old
                              WHERE old.agent_identity = %(theme)s AND old.id = m.replaces),
                'sources', (SELECT jsonb_agg(jsonb_build_object('session_id', c.session_id, 'role', c.role, 'ts', c.ts,
                                                                'sha256', encode(hermes_digest(c.content), 'hex')) ORDER BY c.id)
                              FROM conversations AS c
                             WHERE c.agent_identity = %(theme)s AND c.id = ANY(m.sources)))) END AS said
  FROM memory_entries AS m WHERE m.agent_identity = %(theme)s AND m.id = ANY(%(ids)s) ORDER BY m.id;

-- name: leaving_turns
SELECT id, session_id, role, content, ts, metadata, CASE WHEN %(vectors)s::boolean THEN embedding END AS embedding
  FROM conversations WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s) ORDER BY id;

-- name: leaving_chunks_memories
SELECT row_id, first_char, embedding FROM memory_chunks
 WHERE agent_identity = %(theme)s AND row_id = ANY(%(ids)s) AND embedding IS NOT NULL ORDER BY row_id, part;

-- name: leaving_chunks_turns
SELECT row_id, first_char, embedding FROM conversation_chunks
 WHERE agent_identity = %(theme)s AND row_id = ANY(%(ids)s) AND embedding IS NOT NULL ORDER BY row_id, part;

-- name: leaving_tombstones
SELECT target, digest, removed_at, origin FROM hermes_tombstones
 WHERE agent_identity = %(theme)s
   AND (%(since)s::timestamptz IS NULL OR removed_at >= %(since)s) AND (%(until)s::timestamptz IS NULL OR removed_at < %(until)s)
 ORDER BY removed_at, target, digest;

-- name: leaving_mirrored
SELECT origin, target, digest, announced, noted_at, held_at, held_why, kept_at FROM hermes_mirror
 WHERE agent_identity = %(theme)s;

-- name: metadata_of_texts
SELECT target, digest, metadata FROM memory_entries WHERE agent_identity = %(theme)s AND digest = ANY(%(digests)s::bytea[]);

-- name: entries_read
-- exempt: as take_over_mirrored. Those of these entries that sessions have only read from the files, and for which theme.
SELECT agent_identity, origin, target, digest FROM hermes_mirror
 WHERE NOT announced AND origin = ANY(%(origins)s::text[]) AND digest = ANY(%(digests)s::bytea[]);

-- name: leaving_operations
SELECT op_id, applied_at FROM hermes_operations WHERE agent_identity = %(theme)s;

-- name: themes_with_traces
-- exempt: names for the operator, no stored text. Themes that no longer hold rows may still have tombstones.
SELECT DISTINCT agent_identity AS theme FROM hermes_tombstones
UNION SELECT DISTINCT agent_identity FROM hermes_mirror
UNION SELECT DISTINCT agent_identity FROM hermes_operations
ORDER BY 1;

-- name: bring_mirrored
INSERT INTO hermes_mirror (agent_identity, origin, target, digest, announced, noted_at, held_at, held_why, kept_at)
SELECT * FROM unnest(%(themes)s::text[], %(origins)s::text[], %(targets)s::text[], %(digests)s::bytea[], %(announced)s::boolean[],
                     %(times)s::timestamptz[], %(held)s::timestamptz[], %(why)s::text[], %(kept)s::timestamptz[])
ON CONFLICT (agent_identity, origin, target, digest) DO UPDATE
   SET announced = hermes_mirror.announced OR excluded.announced,
       noted_at = greatest(hermes_mirror.noted_at, excluded.noted_at);

-- name: bring_operations
INSERT INTO hermes_operations (agent_identity, op_id, applied_at)
SELECT * FROM unnest(%(themes)s::text[], %(op_ids)s::uuid[], %(times)s::timestamptz[])
ON CONFLICT DO NOTHING;

-- name: fingerprint_memories
-- The number of memories, and a sum over their digests that does not depend on their order.
SELECT count(*) AS count,
       coalesce(sum(('x' || encode(substr(sha256(convert_to(target, 'UTF8') || digest), 1, 7), 'hex'))::bit(56)::bigint), 0)::text
           AS checksum
  FROM memory_entries WHERE agent_identity = %(theme)s;

-- name: fingerprint_turns
-- A turn that is stored twice counts once, as it does when it is copied.
WITH each AS (
    SELECT DISTINCT sha256(convert_to(session_id || chr(1) || role || chr(1) || extract(epoch FROM ts)::text || chr(1), 'UTF8')
                           || hermes_digest(content)) AS digest
      FROM conversations WHERE agent_identity = %(theme)s)
SELECT count(*) AS count,
       coalesce(sum(('x' || encode(substr(digest, 1, 7), 'hex'))::bit(56)::bigint), 0)::text AS checksum
  FROM each;

-- name: may_write_history
-- exempt: touches no table. Only an admin may say when something happened.
SELECT has_column_privilege('memory_history', 'at', 'INSERT') AS may;

-- name: leaving_history
-- With the current digest of the memory, if it still exists.
SELECT h.memory_id, h.target, h.action, h.at, h.db_role, h.who, h.chars, h.digest, h.old_theme, h.old_chars, h.old_digest,
       h.old_content, h.old_row, m.digest AS now
  FROM memory_history AS h
  LEFT JOIN memory_entries AS m ON m.id = h.memory_id AND m.agent_identity = h.agent_identity
 WHERE h.agent_identity = %(theme)s ORDER BY h.id;

-- name: known_history
-- The id that the memory of each given entry has here: that of the stored memory, else the one under which the history has
-- the entry already.
SELECT given.number,
       coalesce((SELECT m.id FROM memory_entries AS m
                  WHERE m.agent_identity = given.theme AND m.target = given.target AND m.digest = given.now),
                (SELECT max(h.memory_id) FROM memory_history AS h
                  WHERE h.agent_identity = given.theme AND h.at = given.at AND h.action = given.action
                    AND h.target = given.target AND h.digest = given.digest)) AS id
  FROM unnest(%(themes)s::text[], %(targets)s::text[], %(actions)s::text[], %(times)s::timestamptz[], %(digests)s::bytea[],
              %(now)s::bytea[])
       WITH ORDINALITY AS given(theme, target, action, at, digest, now, number)
 ORDER BY given.number;

-- name: bring_history
-- Memories get the ids of this database. Of a memory that is gone, only the text needed to restore it is taken over.
INSERT INTO memory_history (agent_identity, memory_id, target, action, at, db_role, who, chars, digest, old_theme, old_chars,
                            old_digest, old_content, old_row)
SELECT given.theme, given.memory_id, given.target, given.action, given.at, given.db_role, given.who, given.chars,
       given.digest, given.old_theme, given.old_chars, given.old_digest,
       CASE WHEN EXISTS (SELECT FROM memory_entries AS m
                          WHERE m.agent_identity = given.theme AND m.target = given.target AND m.digest = given.now)
              OR given.old_row IS NOT NULL THEN given.old_content END, given.old_row
  FROM unnest(%(themes)s::text[], %(memory_ids)s::bigint[], %(targets)s::text[], %(actions)s::text[], %(times)s::timestamptz[],
              %(db_roles)s::text[], %(who)s::jsonb[], %(chars)s::integer[], %(digests)s::bytea[], %(old_themes)s::text[],
              %(old_chars)s::integer[], %(old_digests)s::bytea[], %(old_contents)s::text[], %(old_rows)s::jsonb[],
              %(now)s::bytea[])
       AS given(theme, memory_id, target, action, at, db_role, who, chars, digest, old_theme, old_chars, old_digest, old_content,
                old_row, now)
 WHERE NOT EXISTS (SELECT FROM memory_history AS h
                    WHERE h.agent_identity = given.theme AND h.at = given.at AND h.action = given.action
                      AND h.target = given.target AND h.digest = given.digest);

-- name: turn_keys
SELECT id, session_id, role, ts, hermes_digest(content) AS digest FROM conversations
 WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s);

-- name: memory_keys
SELECT id, target, digest FROM memory_entries WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s);
