-- What `prune` counts and deletes.

-- name: prunable_turns
-- Of a theme what prune_turns would delete: how many turns, from when to when, their bytes in the table.
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
-- The oldest one of the newest so many turns.
SELECT ts, id FROM conversations
 WHERE agent_identity = %(theme)s AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
   AND role = ANY(%(roles)s::text[])
 ORDER BY ts DESC, id DESC OFFSET %(most)s - 1 LIMIT 1;

-- name: newest_turns_by_bytes
-- The oldest one of the newest turns that so many bytes hold, and at least one.
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
-- exempt: touches no table. The oldest turns come from the index of a theme's timeline, also where the planner has no
-- statistics of themes, as under row-level security: any other way would be a sort.
SELECT set_config('enable_sort', 'off', true) AS sort;

-- name: prunable_memories
SELECT count(*) AS memories, min(m.updated_at) AS oldest_at, max(m.updated_at) AS newest_at,
       coalesce(sum(pg_column_size(m.content) + coalesce(pg_column_size(m.embedding), 0)
                    + coalesce(pg_column_size(m.sig), 0) + coalesce(pg_column_size(m.code), 0) + pg_column_size(m.tsv) + pg_column_size(m.metadata)), 0)::bigint AS bytes,
       count(*) FILTER (WHERE EXISTS (SELECT FROM hermes_mirror AS f
                                       WHERE f.agent_identity = m.agent_identity AND f.target = m.target
                                         AND f.digest = m.digest)) AS in_files
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
-- Of a theme what is superseded, archived or expired, in the order of their numbers, with when the first of that came of it.
SELECT hidden.* FROM (
    SELECT m.id, m.target, m.content, m.updated_at AS at, m.kind, m.subject,
           CASE WHEN m.state IN ('superseded', 'archived') THEN m.state ELSE 'expired' END AS state,
           least(CASE WHEN m.expires_at <= now() THEN m.expires_at END,
                 CASE WHEN m.state IN ('superseded', 'archived')
                      THEN coalesce((SELECT max(h.at) FROM memory_history AS h
                                      WHERE h.agent_identity = %(theme)s AND h.memory_id = m.id
                                        AND h.action IN ('superseded', 'archived')), m.updated_at) END) AS hidden_at
      FROM memory_entries AS m
     WHERE m.agent_identity = %(theme)s AND (m.state IN ('superseded', 'archived') OR m.expires_at <= now())
       AND m.id > %(after)s) AS hidden
 WHERE %(before)s::timestamptz IS NULL OR hidden.hidden_at < %(before)s
 ORDER BY hidden.id LIMIT %(limit)s;
