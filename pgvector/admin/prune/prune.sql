-- The statements of `prune` and of the setting `retention`.

-- name: prunable_turns
-- What prune_turns would delete in a theme: the number of turns, their first and last time, and their bytes in the
-- table.
SELECT count(*) AS turns, min(ts) AS oldest_at, max(ts) AS newest_at,
       coalesce(sum(pg_column_size(content) + coalesce(pg_column_size(embedding), 0) + coalesce(pg_column_size(sig), 0) + coalesce(pg_column_size(code), 0)
                    + pg_column_size(tsv) + pg_column_size(metadata)), 0)::bigint AS bytes
  FROM conversations
 WHERE agent_identity = %(theme)s AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
   AND role = ANY(%(roles)s::text[])
   AND ts <= %(before_at)s AND (ts < %(before_at)s OR id < %(before_id)s);

-- name: oldest_prunable_turns
SELECT agent_identity AS theme, ts AS at, role, left(content, 200) AS content
  FROM conversations
 WHERE agent_identity = %(theme)s AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
   AND role = ANY(%(roles)s::text[])
   AND ts <= %(before_at)s AND (ts < %(before_at)s OR id < %(before_id)s)
 ORDER BY ts, id LIMIT %(limit)s;

-- name: newest_turns_by_number
-- The oldest of the newest `most` turns.
SELECT ts, id FROM conversations
 WHERE agent_identity = %(theme)s AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
   AND role = ANY(%(roles)s::text[])
 ORDER BY ts DESC, id DESC OFFSET %(most)s - 1 LIMIT 1;

-- name: newest_turns_by_bytes
-- The oldest of the newest turns that fit into `most` bytes, but at least one turn.
SELECT ts, id
  FROM (SELECT ts, id, bytes, sum(bytes) OVER (ORDER BY ts DESC, id DESC ROWS UNBOUNDED PRECEDING) AS total
          FROM (SELECT ts, id,
                       pg_column_size(content) + coalesce(pg_column_size(embedding), 0) + coalesce(pg_column_size(sig), 0) + coalesce(pg_column_size(code), 0)
                       + pg_column_size(tsv) + pg_column_size(metadata) AS bytes
                  FROM conversations
                 WHERE agent_identity = %(theme)s AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
                   AND role = ANY(%(roles)s::text[])) AS sized) AS added
 WHERE total <= %(most)s OR total = bytes
 ORDER BY ts, id LIMIT 1;

-- name: walk_timeline
-- exempt: touches no table. The oldest turns are read from the index of a theme's timeline even if the planner has no
-- statistics on themes, as under row-level security: any other plan needs a sort.
SELECT set_config('enable_sort', 'off', true) AS sort;

-- name: prunable_memories
SELECT count(*) AS memories, min(m.updated_at) AS oldest_at, max(m.updated_at) AS newest_at,
       coalesce(sum(pg_column_size(m.content) + coalesce(pg_column_size(m.embedding), 0)
                    + coalesce(pg_column_size(m.sig), 0) + coalesce(pg_column_size(m.code), 0) + pg_column_size(m.tsv) + pg_column_size(m.metadata)), 0)::bigint AS bytes,
       count(*) FILTER (WHERE EXISTS (SELECT FROM hermes_mirror AS f
                                       WHERE f.agent_identity = m.agent_identity AND f.target = m.target
                                         AND f.digest = m.digest AND held_entry(f))) AS in_files
  FROM memory_entries AS m
 WHERE m.agent_identity = %(theme)s AND m.created_at < %(before_at)s AND m.updated_at < %(before_at)s;

-- name: oldest_prunable_memories
SELECT agent_identity AS theme, updated_at AS at, target AS role, left(content, 200) AS content
  FROM memory_entries
 WHERE agent_identity = %(theme)s AND created_at < %(before_at)s AND updated_at < %(before_at)s
 ORDER BY updated_at, id LIMIT %(limit)s;

-- name: prunable_memory_ids
SELECT id FROM memory_entries
 WHERE agent_identity = %(theme)s AND created_at < %(before_at)s AND updated_at < %(before_at)s
 ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED;

-- name: purgeable_memories
-- A theme's superseded, archived and expired memories, in the order of their ids, with the time since when they are
-- hidden. The history does not tell that time for a memory that arrived in this state, for example by an import: its
-- arrival counts.
SELECT hidden.* FROM (
    SELECT m.id, m.target, m.content, m.updated_at AS at, m.kind, m.subject,
           CASE WHEN m.state IN ('superseded', 'archived') THEN m.state ELSE 'expired' END AS state,
           least(CASE WHEN m.expires_at <= now() THEN m.expires_at END,
                 CASE WHEN m.state IN ('superseded', 'archived')
                      THEN coalesce((SELECT max(h.at) FROM memory_history AS h
                                      WHERE h.agent_identity = %(theme)s AND h.memory_id = m.id
                                        AND h.action IN ('superseded', 'archived')),
                                    (SELECT greatest(max(h.at), m.updated_at) FROM memory_history AS h
                                      WHERE h.agent_identity = %(theme)s AND h.memory_id = m.id)) END) AS hidden_at
      FROM memory_entries AS m
     WHERE m.agent_identity = %(theme)s AND (m.state IN ('superseded', 'archived') OR m.expires_at <= now())
       AND m.id > %(after)s) AS hidden
 WHERE %(before)s::timestamptz IS NULL OR hidden.hidden_at < %(before)s
 ORDER BY hidden.id LIMIT %(limit)s;

-- name: prune_turns
-- Examines the next `limit` turns of a theme, oldest first, and deletes those of the roles. A row that somebody else is
-- about to change is skipped, so that this statement never waits for a row while it holds others.
WITH slice AS MATERIALIZED (
    SELECT id, ts, role FROM conversations
     WHERE agent_identity = %(theme)s AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
       AND ts >= %(after_at)s AND (ts > %(after_at)s OR id > %(after_id)s)
       AND ts <= %(before_at)s AND (ts < %(before_at)s OR id < %(before_id)s)
     ORDER BY ts, id LIMIT %(limit)s),
free AS MATERIALIZED (
    SELECT c.id FROM conversations AS c
     WHERE c.agent_identity = %(theme)s
       AND c.id = ANY (ARRAY(SELECT id FROM slice WHERE role = ANY(%(roles)s::text[])))
       FOR UPDATE SKIP LOCKED),
gone AS (
    DELETE FROM conversations AS c
     WHERE c.agent_identity = %(theme)s AND c.id = ANY (ARRAY(SELECT id FROM free))
    RETURNING c.id)
SELECT (SELECT count(*) FROM slice) AS seen,
       (SELECT count(*) FROM slice WHERE role = ANY(%(roles)s::text[])) AS meant,
       (SELECT count(*) FROM gone) AS deleted,
       (SELECT ts FROM slice ORDER BY ts DESC, id DESC LIMIT 1) AS last_at,
       (SELECT id FROM slice ORDER BY ts DESC, id DESC LIMIT 1) AS last_id;

-- name: try_upkeep
-- exempt: touches no table. Only one process at a time, until its transaction ends.
SELECT pg_try_advisory_xact_lock(731057951) AS got;

-- name: oldest_turns
-- exempt: names and times for the upkeep, no stored text. The themes are found one by one along an index.
WITH RECURSIVE themes(theme) AS (walked_themes(conversations; themes))
SELECT t.theme, extract(epoch FROM now() - oldest.ts)::float8 AS age_s, retention_standing(r)
  FROM themes AS t
 CROSS JOIN LATERAL (SELECT c.ts FROM conversations AS c
                      WHERE c.agent_identity = t.theme AND c.ts > '-infinity' ORDER BY c.ts LIMIT 1) AS oldest
  LEFT JOIN hermes_retention AS r ON r.agent_identity = t.theme
 WHERE t.theme IS NOT NULL AND oldest.ts < now();

-- name: oldest_turns_own
-- exempt: as oldest_turns, for a role that row-level security confines to some themes, which are the ones examined.
SELECT t.theme, extract(epoch FROM now() - oldest.ts)::float8 AS age_s, retention_standing(r)
  FROM unnest(hermes_themes_of(current_user)) AS t(theme)
 CROSS JOIN LATERAL (SELECT c.ts FROM conversations AS c
                      WHERE c.agent_identity = t.theme AND c.ts > '-infinity' ORDER BY c.ts LIMIT 1) AS oldest
  LEFT JOIN hermes_retention AS r ON r.agent_identity = t.theme
 WHERE oldest.ts < now();

-- name: oldest_turns_spread
-- exempt: as oldest_turns, where the tables are distributed over machines, each of which looks through its own.
SELECT oldest.agent_identity AS theme, extract(epoch FROM now() - oldest.ts)::float8 AS age_s, retention_standing(r)
  FROM (SELECT agent_identity, min(ts) AS ts FROM conversations
         WHERE ts > '-infinity' GROUP BY agent_identity) AS oldest
  LEFT JOIN hermes_retention AS r ON r.agent_identity = oldest.agent_identity
 WHERE oldest.ts < now();

-- name: announce_retention
-- A policy that is new to a theme begins to wait, and so does one after which the clock was set.
INSERT INTO hermes_retention (agent_identity, policy, announced_at)
SELECT theme, policy, %(now)s FROM unnest(%(themes)s::text[], %(policies)s::text[]) AS given(theme, policy)
ON CONFLICT (agent_identity) DO UPDATE
   SET policy = excluded.policy, announced_at = excluded.announced_at, begun_at = NULL, ended_at = NULL, deleted = 0, held_until = NULL;

-- name: claim_retention
-- Reserves the theme for one process for a while. A run that another process did not finish is continued. Nothing is
-- reserved if the clock was set since the last time.
WITH claimed AS (
    UPDATE hermes_retention
       SET held_by = %(me)s, held_until = %(now)s::timestamptz + make_interval(secs => %(lease_s)s),
           begun_at = CASE WHEN begun_at > coalesce(ended_at, '-infinity') THEN begun_at ELSE %(now)s END,
           deleted = CASE WHEN begun_at > coalesce(ended_at, '-infinity') THEN deleted ELSE 0 END
     WHERE agent_identity = %(theme)s AND policy = %(policy)s
       AND announced_at <= %(now)s::timestamptz - make_interval(secs => %(grace_s)s)
       AND greatest(announced_at, begun_at, ended_at) >= %(now)s::timestamptz - make_interval(secs => %(most_s)s)
       AND (held_until IS NULL OR held_by = %(me)s
            OR held_until NOT BETWEEN %(now)s::timestamptz AND %(now)s::timestamptz + make_interval(secs => %(lease_s)s))
       AND (ended_at IS NULL OR ended_at < %(now)s::timestamptz - make_interval(secs => %(every_s)s) OR begun_at > ended_at)
    RETURNING true)
SELECT %(now)s::timestamptz - make_interval(days => %(days)s) AS before_at FROM claimed;

-- name: note_retention
UPDATE hermes_retention
   SET deleted = deleted + %(deleted)s,
       ended_at = CASE WHEN %(ended)s THEN %(now)s ELSE ended_at END,
       held_until = CASE WHEN %(ended)s THEN NULL ELSE held_until END
 WHERE agent_identity = %(theme)s
RETURNING deleted;
