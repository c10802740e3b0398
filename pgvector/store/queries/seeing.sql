-- What an operator looks at and puts right: single rows, timelines, sessions.

-- name: list_memories
-- The most recently written or confirmed ones first; of each text at most `chars` characters.
WITH page AS MATERIALIZED (
    SELECT id, updated_at FROM memory_entries
     WHERE agent_identity = %(theme)s
       AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz
       AND (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND (NOT %(pending)s::boolean OR (embedding IS NULL AND sig IS NULL))
     ORDER BY updated_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s)
SELECT m.id, m.target AS kind, m.updated_at AS at, m.created_at, m.metadata ->> 'session_id' AS session_id,
       m.metadata ->> 'source' AS source, m.embedding IS NULL AND m.sig IS NULL AS pending,
       left(m.content, %(chars)s) AS content, length(m.content) AS chars
  FROM page JOIN memory_entries AS m ON m.id = page.id
 ORDER BY page.updated_at DESC, page.id DESC;

-- name: list_turns
WITH page AS MATERIALIZED (
    SELECT id, ts FROM conversations
     WHERE agent_identity = %(theme)s AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
       AND (NOT %(pending)s::boolean OR (embedding IS NULL AND sig IS NULL))
     ORDER BY ts DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s)
SELECT c.id, c.role AS kind, c.ts AS at, c.ts AS created_at, c.session_id, c.metadata ->> 'source' AS source,
       c.embedding IS NULL AND c.sig IS NULL AS pending, left(c.content, %(chars)s) AS content, length(c.content) AS chars
  FROM page JOIN conversations AS c ON c.id = page.id
 ORDER BY page.ts DESC, page.id DESC;

-- name: show_memory
-- exempt: one row, by the number that an operator names.
SELECT m.id, m.agent_identity AS theme, m.target, m.content, m.created_at, m.updated_at, m.metadata, m.owners, m.text_language,
       length(m.content) AS chars, encode(m.digest, 'hex') AS sha256, m.embedding IS NULL AND m.sig IS NULL AS pending, m.embed_after,
       (SELECT count(*) FROM memory_chunks AS k WHERE k.row_id = m.id) AS more_parts,
       (SELECT count(DISTINCT f.origin) FROM hermes_mirror AS f
         WHERE f.agent_identity = m.agent_identity AND f.target = m.target AND f.digest = m.digest) AS in_files
  FROM memory_entries AS m WHERE m.id = %(id)s;

-- name: show_turn
-- exempt: as show_memory.
SELECT c.id, c.agent_identity AS theme, c.session_id, c.role, c.content, c.ts, c.metadata, c.text_language,
       length(c.content) AS chars, encode(hermes_digest(c.content), 'hex') AS sha256, c.embedding IS NULL AND c.sig IS NULL AS pending,
       c.embed_after, (SELECT count(*) FROM conversation_chunks AS k WHERE k.row_id = c.id) AS more_parts
  FROM conversations AS c WHERE c.id = %(id)s;

-- name: rows_of_memories
-- exempt: as show_memory, several of them.
SELECT id, agent_identity AS theme, target AS kind, updated_at AS at, content FROM memory_entries
 WHERE id = ANY(%(ids)s) ORDER BY id;

-- name: rows_of_turns
-- exempt: as show_memory, several of them.
SELECT id, agent_identity AS theme, role AS kind, ts AS at, content FROM conversations WHERE id = ANY(%(ids)s) ORDER BY id;

-- name: theme_exists
SELECT EXISTS (SELECT FROM memory_entries WHERE agent_identity = %(theme)s)
    OR EXISTS (SELECT FROM conversations WHERE agent_identity = %(theme)s)
    OR EXISTS (SELECT FROM memory_history WHERE agent_identity = %(theme)s) AS found;

-- name: theme_names
-- exempt: names for the operator, no stored text; of them a session is told those that it may read, see host/misspelt.py.
-- They are found one by one along an index.
WITH RECURSIVE said(theme) AS (
    (SELECT agent_identity FROM conversations ORDER BY agent_identity LIMIT 1)
    UNION ALL
    SELECT (SELECT agent_identity FROM conversations WHERE agent_identity > said.theme ORDER BY agent_identity LIMIT 1)
      FROM said WHERE theme IS NOT NULL),
noted(theme) AS (
    (SELECT agent_identity FROM memory_entries ORDER BY agent_identity LIMIT 1)
    UNION ALL
    SELECT (SELECT agent_identity FROM memory_entries WHERE agent_identity > noted.theme ORDER BY agent_identity LIMIT 1)
      FROM noted WHERE theme IS NOT NULL)
SELECT theme FROM said WHERE theme IS NOT NULL UNION SELECT theme FROM noted WHERE theme IS NOT NULL ORDER BY 1;

-- name: list_sessions
-- The theme's timeline is walked back from the end to each session that was not met before, so that the newest sessions of a
-- large theme cost what they hold, not what the theme does.
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
SELECT page.session_id, held.turns, held.first_at, held.last_at, opening.parent_session_id, opening.content AS opening
  FROM page
 CROSS JOIN LATERAL (SELECT count(*) AS turns, min(ts) AS first_at, max(ts) AS last_at FROM conversations AS c
                      WHERE c.session_id = page.session_id
                        AND CASE WHEN c.agent_identity = %(theme)s THEN true ELSE false END) AS held
  LEFT JOIN LATERAL (SELECT left(c.content, %(chars)s) AS content, c.metadata ->> 'parent_session_id' AS parent_session_id
                       FROM conversations AS c
                      WHERE c.session_id = page.session_id
                        AND CASE WHEN c.agent_identity = %(theme)s THEN true ELSE false END
                      ORDER BY c.ts, c.id LIMIT 1) AS opening ON true
 ORDER BY page.number;

-- name: session_themes
-- exempt: names for the operator, no stored text. Two keys of the API server may have given a session one name.
SELECT agent_identity AS theme, count(*) AS turns FROM conversations WHERE session_id = %(session_id)s GROUP BY 1 ORDER BY 1;

-- name: transcript_of_session
-- In the order in which they were said, from after a turn on.
SELECT id, role, content, ts, metadata, embedding IS NULL AND sig IS NULL AS pending FROM conversations
 WHERE session_id = %(session_id)s AND CASE WHEN agent_identity = %(theme)s THEN true ELSE false END
   AND (ts, id) > (%(after_ts)s::timestamptz, %(after_id)s::bigint)
 ORDER BY ts, id LIMIT %(limit)s OFFSET %(offset)s;

-- name: edit_memory
-- Under the same number, as old as it was. Its vectors go with the text.
UPDATE memory_entries
   SET content = %(content)s, embedding = NULL, sig = NULL, embed_after = NULL, updated_at = %(at)s,
       metadata = metadata || %(metadata)s
 WHERE agent_identity = %(theme)s AND id = %(id)s AND digest = hermes_digest(%(old_content)s);

-- name: bury_text
-- No file that still holds it brings it back.
INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at)
SELECT %(theme)s, %(target)s, hermes_digest(%(content)s), %(at)s
 WHERE EXISTS (SELECT FROM memory_entries WHERE agent_identity = %(theme)s AND id = %(id)s)
ON CONFLICT (agent_identity, target, digest) DO UPDATE
   SET removed_at = greatest(hermes_tombstones.removed_at, excluded.removed_at);
