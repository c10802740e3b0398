-- What an operator asks for about whole themes.

-- name: count_all
-- exempt: totals for the operator, no stored text.
SELECT (SELECT count(*) FROM memory_entries) AS memories,
       (SELECT count(*) FROM conversations) AS turns,
       (SELECT count(*) FROM memory_entries WHERE embedding IS NULL AND sig IS NULL) AS pending_memories,
       (SELECT count(*) FROM conversations WHERE embedding IS NULL AND sig IS NULL) AS pending_turns;

-- name: list_themes
-- exempt: names, counts and times for the operator, no stored text.
WITH counted AS (
    SELECT agent_identity, count(*) FILTER (WHERE target = 'memory') AS memories, count(*) FILTER (WHERE target = 'user') AS facts,
           0 AS turns, count(*) FILTER (WHERE embedding IS NULL AND sig IS NULL) AS pending,
           min(created_at) AS first_at, max(updated_at) AS last_at
      FROM memory_entries GROUP BY agent_identity
    UNION ALL
    SELECT agent_identity, 0, 0, count(*), count(*) FILTER (WHERE embedding IS NULL AND sig IS NULL), min(ts), max(ts)
      FROM conversations GROUP BY agent_identity)
SELECT agent_identity AS theme, sum(memories)::bigint AS memories, sum(facts)::bigint AS user_facts, sum(turns)::bigint AS turns,
       sum(pending)::bigint AS pending, min(first_at) AS first_at, max(last_at) AS last_at
  FROM counted GROUP BY agent_identity ORDER BY agent_identity;

-- name: show_theme
SELECT (SELECT count(*) FROM memory_entries WHERE agent_identity = %(theme)s AND target = 'memory') AS memories,
       (SELECT count(*) FROM memory_entries WHERE agent_identity = %(theme)s AND target = 'user') AS user_facts,
       (SELECT count(*) FROM conversations WHERE agent_identity = %(theme)s) AS turns,
       (SELECT count(DISTINCT session_id) FROM conversations WHERE agent_identity = %(theme)s) AS sessions,
       (SELECT count(*) FROM memory_entries WHERE agent_identity = %(theme)s AND embedding IS NULL AND sig IS NULL)
         + (SELECT count(*) FROM conversations WHERE agent_identity = %(theme)s AND embedding IS NULL AND sig IS NULL) AS pending,
       (SELECT count(DISTINCT (f.target, f.digest))
          FROM hermes_mirror AS f
          JOIN memory_entries AS m ON m.agent_identity = f.agent_identity AND m.target = f.target AND m.digest = f.digest
         WHERE f.agent_identity = %(theme)s) AS in_files,
       (SELECT count(*) FROM hermes_tombstones WHERE agent_identity = %(theme)s) AS removed,
       least((SELECT min(created_at) FROM memory_entries WHERE agent_identity = %(theme)s),
             (SELECT min(ts) FROM conversations WHERE agent_identity = %(theme)s)) AS first_at,
       greatest((SELECT max(updated_at) FROM memory_entries WHERE agent_identity = %(theme)s),
                (SELECT max(ts) FROM conversations WHERE agent_identity = %(theme)s)) AS last_at;

-- name: theme_memory_ids
SELECT id FROM memory_entries WHERE agent_identity = %(theme)s ORDER BY id;

-- name: theme_turn_ids
SELECT id FROM conversations WHERE agent_identity = %(theme)s ORDER BY id;

-- name: count_shared_memories
SELECT count(*) AS count
  FROM memory_entries AS old JOIN memory_entries AS kept ON kept.target = old.target AND kept.digest = old.digest
 WHERE old.agent_identity = %(theme)s AND kept.agent_identity = %(into)s;

-- name: merge_shared_memories
-- What both themes hold stays once, as old as the older and as fresh as the fresher of the two. The vector of a long text is
-- no use without those of its other parts.
WITH shared AS (
    SELECT old.id AS old_id, kept.id AS kept_id, old.created_at, old.updated_at, old.owners,
           CASE WHEN NOT EXISTS (SELECT FROM memory_chunks AS k WHERE k.row_id = old.id) THEN old.embedding END AS embedding
      FROM memory_entries AS old JOIN memory_entries AS kept ON kept.target = old.target AND kept.digest = old.digest
     WHERE old.agent_identity = %(theme)s AND kept.agent_identity = %(into)s),
merged AS (
    UPDATE memory_entries AS m
       SET created_at = least(m.created_at, shared.created_at), updated_at = greatest(m.updated_at, shared.updated_at),
           embedding = coalesce(m.embedding, shared.embedding),
           sig = coalesce(m.sig, binary_quantize(shared.embedding)),
           owners = ARRAY(SELECT DISTINCT owner FROM unnest(m.owners || shared.owners) AS owner)
      FROM shared WHERE m.agent_identity = %(into)s AND m.id = shared.kept_id)
DELETE FROM memory_entries AS m USING shared WHERE m.agent_identity = %(theme)s AND m.id = shared.old_id;

-- name: move_memories
UPDATE memory_entries SET agent_identity = %(into)s WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s);

-- name: move_turns
UPDATE conversations SET agent_identity = %(into)s WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s);

-- name: move_operations
-- They stay under the old name as well: what a spool still holds of them names the theme as it was then.
INSERT INTO hermes_operations (agent_identity, op_id, applied_at)
SELECT %(into)s, op_id, applied_at FROM hermes_operations WHERE agent_identity = %(theme)s
ON CONFLICT DO NOTHING;

-- name: move_tombstones
WITH moved AS (DELETE FROM hermes_tombstones WHERE agent_identity = %(theme)s RETURNING target, digest, removed_at, origin)
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at, origin)
SELECT %(into)s, target, digest, removed_at, origin FROM moved
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET removed_at = greatest(hermes_tombstones.removed_at, excluded.removed_at);

-- name: move_mirrored
WITH moved AS (
    DELETE FROM hermes_mirror WHERE agent_identity = %(theme)s
    RETURNING origin, target, digest, announced, noted_at, held_at, held_why, kept_at)
INSERT INTO hermes_mirror (agent_identity, origin, target, digest, announced, noted_at, held_at, held_why, kept_at)
SELECT %(into)s, origin, target, digest, announced, noted_at, held_at, held_why, kept_at FROM moved
ON CONFLICT (agent_identity, origin, target, digest) DO UPDATE
   SET announced = hermes_mirror.announced OR excluded.announced,
       noted_at = greatest(hermes_mirror.noted_at, excluded.noted_at);

-- name: clear_live_tombstones
-- What one theme had removed and the other one holds, is held.
DELETE FROM hermes_tombstones AS t USING memory_entries AS m
 WHERE t.agent_identity = %(theme)s AND m.agent_identity = t.agent_identity AND m.target = t.target AND m.digest = t.digest;

-- name: delete_turns
DELETE FROM conversations WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s);

-- name: record_maintenance
-- exempt: what an operator did, no stored text.
INSERT INTO hermes_maintenance (os_user, host, verb, arguments, counts)
VALUES (%(os_user)s, %(host)s, %(verb)s, %(arguments)s, %(counts)s);

-- name: read_maintenance
-- exempt: what operators did, no stored text.
SELECT id, done_at, db_role, os_user, host, verb, arguments, counts FROM hermes_maintenance ORDER BY id DESC LIMIT %(limit)s;

-- name: themes_of_clients
-- exempt: names for the operator, no stored text. Those whose last turn came through the API server, and that are not the
-- profile's own: a client named them. The themes are found one by one along an index.
WITH RECURSIVE themes(theme) AS (
    (SELECT agent_identity FROM conversations ORDER BY agent_identity LIMIT 1)
    UNION ALL
    SELECT (SELECT agent_identity FROM conversations WHERE agent_identity > themes.theme ORDER BY agent_identity LIMIT 1)
      FROM themes WHERE theme IS NOT NULL)
SELECT theme FROM themes
 CROSS JOIN LATERAL (SELECT metadata FROM conversations WHERE agent_identity = theme ORDER BY ts DESC LIMIT 1) AS last
 WHERE theme IS NOT NULL AND metadata ->> 'platform' = 'api_server'
   AND theme <> lower(coalesce(metadata ->> 'profile', 'default'))
 ORDER BY theme;

-- name: homes_of_theme
-- How many homes have noted entries of their memory files under a theme.
SELECT count(DISTINCT split_part(origin, ':', 1)) AS homes FROM hermes_mirror WHERE agent_identity = %(theme)s;

-- name: themes_of_home
-- exempt: names for the operator, no stored text. Those that this home's memory files were written under, and those
-- whose last turn came from its profile; the themes are found one by one along an index.
WITH RECURSIVE themes(theme) AS (
    (SELECT agent_identity FROM conversations ORDER BY agent_identity LIMIT 1)
    UNION ALL
    SELECT (SELECT agent_identity FROM conversations WHERE agent_identity > themes.theme ORDER BY agent_identity LIMIT 1)
      FROM themes WHERE theme IS NOT NULL)
SELECT theme FROM themes
 WHERE theme IS NOT NULL
   AND (SELECT metadata ->> 'profile' FROM conversations
         WHERE agent_identity = theme ORDER BY ts DESC LIMIT 1) = %(profile)s
UNION
SELECT agent_identity FROM hermes_mirror WHERE origin = %(origin)s AND announced
ORDER BY 1;
