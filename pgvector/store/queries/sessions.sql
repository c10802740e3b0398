-- Sessions of a theme, and what was said in one.

-- name: list_sessions
-- The theme's timeline is walked back from the end to each session that was not met before, so that the cost of the newest
-- sessions of a large theme depends on their size, not on that of the theme.
WITH RECURSIVE walk AS (
    (SELECT session_id, ts, ARRAY[session_id] AS met, 1 AS number FROM conversations
      WHERE agent_identity = %(theme)s AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
      ORDER BY ts DESC LIMIT 1)
    UNION ALL
    SELECT earlier.session_id, earlier.ts, walk.met || earlier.session_id, walk.number + 1
      FROM walk CROSS JOIN LATERAL (
        SELECT c.session_id, c.ts FROM conversations AS c
         WHERE c.agent_identity = %(theme)s AND c.ts >= %(since)s::timestamptz AND c.ts <= walk.ts
           AND c.session_id <> ALL (walk.met)
         ORDER BY c.ts DESC LIMIT 1) AS earlier
     WHERE walk.number < %(limit)s + %(offset)s),
page AS MATERIALIZED (SELECT session_id, number FROM walk WHERE number > %(offset)s)
SELECT page.session_id, held.turns, held.first_at, held.last_at, opening.parent_session_id, opening.content AS opening,
       first_asked(page.session_id)
  FROM page
 CROSS JOIN LATERAL (SELECT count(*) AS turns, min(ts) AS first_at, max(ts) AS last_at FROM conversations AS c
                      WHERE c.session_id = page.session_id AND of_theme(c)) AS held
  LEFT JOIN LATERAL (SELECT left(c.content, %(chars)s) AS content, c.metadata ->> 'parent_session_id' AS parent_session_id
                       FROM conversations AS c
                      WHERE c.session_id = page.session_id AND of_theme(c)
                      ORDER BY c.ts, c.id LIMIT 1) AS opening ON true
 ORDER BY page.number;

-- name: describe_session
SELECT count(*) AS turns, min(ts) AS first_at, max(ts) AS last_at,
       (SELECT o.metadata ->> 'parent_session_id' FROM conversations AS o
         WHERE o.session_id = %(session_id)s AND of_theme(o)
         ORDER BY o.ts, o.id LIMIT 1) AS parent_session_id,
       (SELECT left(o.content, %(chars)s) FROM conversations AS o
         WHERE o.session_id = %(session_id)s AND of_theme(o)
         ORDER BY o.ts, o.id LIMIT 1) AS opening,
       first_asked(%(session_id)s)
  FROM conversations AS c
 WHERE c.session_id = %(session_id)s AND of_theme(c);

-- name: transcript_of_session
-- The turns in the order in which they were said, from those after a given turn on.
SELECT id, role, content, ts, metadata, embedding IS NULL AND sig IS NULL AS pending, ts::text AS place FROM conversations
 WHERE session_id = %(session_id)s AND CASE WHEN agent_identity = %(theme)s THEN true ELSE false END
   AND (ts, id) > (%(after_ts)s::timestamptz, %(after_id)s::bigint)
 ORDER BY ts, id LIMIT %(limit)s OFFSET %(offset)s;

-- name: turn_of_theme
SELECT session_id, role, content, ts FROM conversations WHERE agent_identity = %(theme)s AND id = %(id)s;
