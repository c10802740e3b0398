-- What `list`, `show`, `history` and `sessions` read.

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
SELECT page.session_id, held.turns, held.first_at, held.last_at, opening.parent_session_id, opening.content AS opening,
       ARRAY(SELECT left(c.content, %(chars)s) FROM conversations AS c
              WHERE c.session_id = page.session_id AND c.role = 'user'
                AND CASE WHEN c.agent_identity = %(theme)s THEN true ELSE false END
              ORDER BY c.ts, c.id LIMIT %(asked)s) AS asked
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

-- name: describe_session
SELECT count(*) AS turns, min(ts) AS first_at, max(ts) AS last_at,
       (SELECT left(o.content, %(chars)s) FROM conversations AS o
         WHERE o.session_id = %(session_id)s AND CASE WHEN o.agent_identity = %(theme)s THEN true ELSE false END
         ORDER BY o.ts, o.id LIMIT 1) AS opening,
       ARRAY(SELECT left(o.content, %(chars)s) FROM conversations AS o
              WHERE o.session_id = %(session_id)s AND o.role = 'user'
                AND CASE WHEN o.agent_identity = %(theme)s THEN true ELSE false END
              ORDER BY o.ts, o.id LIMIT %(asked)s) AS asked
  FROM conversations AS c
 WHERE c.session_id = %(session_id)s AND CASE WHEN c.agent_identity = %(theme)s THEN true ELSE false END;

-- name: list_history
-- Newest first. A memory that was removed is still known by its number.
SELECT id, at, action, memory_id, target, db_role, who, chars, encode(digest, 'hex') AS digest, old_theme, old_chars,
       encode(old_digest, 'hex') AS old_digest, old_content
  FROM memory_history
 WHERE agent_identity = %(theme)s AND at >= %(since)s::timestamptz AND at < %(until)s::timestamptz
   AND (%(action)s::text IS NULL OR action = %(action)s)
   AND (%(target)s::text IS NULL OR target = %(target)s)
   AND (%(session_id)s::text IS NULL OR who ->> 'session_id' = %(session_id)s)
 ORDER BY at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s;

-- name: history_of_memory
-- exempt: of one memory, by the number that an operator names; it may be gone, and with it its theme's last row.
SELECT id, agent_identity AS theme, at, action, memory_id, target, db_role, who, chars, encode(digest, 'hex') AS digest, old_theme,
       old_chars, encode(old_digest, 'hex') AS old_digest, old_content
  FROM memory_history WHERE memory_id = %(memory_id)s ORDER BY id DESC LIMIT %(limit)s OFFSET %(offset)s;
