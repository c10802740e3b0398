-- Which themes exist, and what they hold.

-- name: theme_exists
SELECT EXISTS (SELECT FROM memory_entries WHERE agent_identity = %(theme)s)
    OR EXISTS (SELECT FROM conversations WHERE agent_identity = %(theme)s)
    OR EXISTS (SELECT FROM memory_history WHERE agent_identity = %(theme)s) AS found;

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
         WHERE f.agent_identity = %(theme)s AND held_entry(f)) AS in_files,
       (SELECT count(*) FROM hermes_tombstones WHERE agent_identity = %(theme)s) AS removed,
       least((SELECT min(created_at) FROM memory_entries WHERE agent_identity = %(theme)s),
             (SELECT min(ts) FROM conversations WHERE agent_identity = %(theme)s)) AS first_at,
       greatest((SELECT max(updated_at) FROM memory_entries WHERE agent_identity = %(theme)s),
                (SELECT max(ts) FROM conversations WHERE agent_identity = %(theme)s)) AS last_at;

-- name: themes_of_clients
-- exempt: names for the operator, no stored text. Themes whose last turn came through the API server and that are not
-- the profile's own, so that a client must have named them. The themes are found one by one along an index.
WITH RECURSIVE themes(theme) AS (walked_themes(conversations; themes))
SELECT theme FROM themes
 CROSS JOIN LATERAL (SELECT metadata FROM conversations WHERE agent_identity = theme ORDER BY ts DESC LIMIT 1) AS last
 WHERE theme IS NOT NULL AND metadata ->> 'platform' = 'api_server'
   AND theme <> lower(coalesce(metadata ->> 'profile', 'default'))
 ORDER BY theme;

-- name: themes_of_clients_spread
-- exempt: as themes_of_clients, where the tables are spread over machines, each of which reads its own.
SELECT theme
  FROM last_turns() AS last
 WHERE metadata ->> 'platform' = 'api_server' AND theme <> lower(coalesce(metadata ->> 'profile', 'default'))
 ORDER BY theme;

-- name: homes_of_theme
-- How many homes have noted entries of their memory files under a theme.
SELECT count(DISTINCT split_part(origin, ':', 1)) AS homes FROM hermes_mirror WHERE agent_identity = %(theme)s;

-- name: themes_of_home
-- exempt: names for the operator, no stored text. Themes that this home's memory files were written under, and those
-- whose last turn came from its profile; the themes are found one by one along an index.
WITH RECURSIVE themes(theme) AS (walked_themes(conversations; themes))
SELECT theme FROM themes
 WHERE theme IS NOT NULL
   AND (SELECT metadata ->> 'profile' FROM conversations
         WHERE agent_identity = theme ORDER BY ts DESC LIMIT 1) = %(profile)s
UNION
SELECT agent_identity FROM hermes_mirror WHERE origin = %(origin)s AND announced
ORDER BY 1;

-- name: themes_of_home_spread
-- exempt: as themes_of_home, where the tables are spread over machines, each of which reads its own.
SELECT theme
  FROM last_turns() AS last
 WHERE metadata ->> 'profile' = %(profile)s
UNION
SELECT agent_identity FROM hermes_mirror WHERE origin = %(origin)s AND announced
ORDER BY 1;

-- name: themes_of_roles
-- exempt: names for the operator.
SELECT r.rolname::text AS role, array_agg(t.theme ORDER BY t.theme) AS themes
  FROM hermes_tenants AS t JOIN pg_roles AS r ON r.oid = t.role
 GROUP BY r.rolname ORDER BY r.rolname;

-- name: theme_moves
-- exempt: names for the operator. Which themes were renamed or merged, the earliest first.
SELECT arguments ->> 'theme' AS theme, arguments ->> 'into' AS into
  FROM hermes_maintenance WHERE verb IN ('rename', 'merge') ORDER BY id;
