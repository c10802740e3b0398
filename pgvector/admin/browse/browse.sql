-- The statements of `list`, `show`, `history` and `sessions`.

-- name: list_memories
-- Most recently written or confirmed first; texts are cut to `chars` characters.
WITH page AS MATERIALIZED (
    SELECT id, updated_at FROM memory_entries
     WHERE agent_identity = %(theme)s
       AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz
       AND (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(said_kind)s::text IS NULL OR coalesce(kind, 'fact') = %(said_kind)s)
       AND (%(state)s::text IS NULL OR coalesce(state, 'active') = %(state)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND (NOT %(pending)s::boolean OR (embedding IS NULL AND sig IS NULL))
     ORDER BY updated_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s)
SELECT m.id, m.target, m.updated_at AS at, m.created_at, m.metadata ->> 'session_id' AS session_id,
       m.metadata ->> 'source' AS source, m.embedding IS NULL AND m.sig IS NULL AS pending,
       left(m.content, %(chars)s) AS content, length(m.content) AS chars
  FROM page JOIN memory_entries AS m ON m.id = page.id AND m.agent_identity = %(theme)s
 ORDER BY page.updated_at DESC, page.id DESC;

-- name: list_turns
WITH page AS MATERIALIZED (
    SELECT id, ts FROM conversations
     WHERE agent_identity = %(theme)s AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
       AND (NOT %(pending)s::boolean OR (embedding IS NULL AND sig IS NULL))
     ORDER BY ts DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s)
SELECT c.id, c.role, c.ts AS at, c.ts AS created_at, c.session_id, c.metadata ->> 'source' AS source,
       c.embedding IS NULL AND c.sig IS NULL AS pending, left(c.content, %(chars)s) AS content, length(c.content) AS chars
  FROM page JOIN conversations AS c ON c.id = page.id AND c.agent_identity = %(theme)s
 ORDER BY page.ts DESC, page.id DESC;

-- name: sessions_far_down
-- In the order of list_sessions. Reading the theme takes less time than walking back over many skipped sessions.
SELECT session_id FROM conversations
 WHERE agent_identity = %(theme)s AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
 GROUP BY session_id ORDER BY max(ts) DESC, session_id LIMIT %(limit)s OFFSET %(offset)s;

-- name: list_session
-- In the order in which they were said; texts are cut to `chars` characters.
WITH page AS MATERIALIZED (
    SELECT id, ts FROM conversations
     WHERE session_id = %(session_id)s AND CASE WHEN agent_identity = %(theme)s THEN true ELSE false END
     ORDER BY ts, id LIMIT %(limit)s OFFSET %(offset)s)
SELECT c.id, c.role, c.ts AS at, c.ts AS created_at, c.session_id, c.metadata ->> 'source' AS source,
       c.embedding IS NULL AND c.sig IS NULL AS pending, left(c.content, %(chars)s) AS content, length(c.content) AS chars
  FROM page JOIN conversations AS c ON c.id = page.id AND c.agent_identity = %(theme)s
 ORDER BY page.ts, page.id;

-- name: show_memory
-- exempt: one row, by the number that an operator names.
SELECT m.id, m.agent_identity AS theme, m.target, left(m.content, %(chars)s) AS content, m.updated_at AS at, m.created_at, m.metadata, m.owners, m.text_language,
       length(m.content) AS chars, encode(m.digest, 'hex') AS sha256, m.embedding IS NULL AND m.sig IS NULL AS pending, m.embed_after,
       (SELECT count(*) FROM memory_chunks AS k WHERE k.row_id = m.id AND k.agent_identity = m.agent_identity) AS more_parts,
       (SELECT count(DISTINCT f.origin) FROM hermes_mirror AS f
         WHERE f.agent_identity = m.agent_identity AND f.target = m.target AND f.digest = m.digest AND held_entry(f)) AS in_files
  FROM memory_entries AS m WHERE m.id = %(id)s;

-- name: show_turn
-- exempt: as show_memory.
SELECT c.id, c.agent_identity AS theme, c.session_id, c.role, left(c.content, %(chars)s) AS content, c.ts AS at, c.metadata, c.text_language,
       length(c.content) AS chars, encode(hermes_digest(c.content), 'hex') AS sha256, c.embedding IS NULL AND c.sig IS NULL AS pending,
       c.embed_after, (SELECT count(*) FROM conversation_chunks AS k WHERE k.row_id = c.id AND k.agent_identity = c.agent_identity)
         AS more_parts
  FROM conversations AS c WHERE c.id = %(id)s;

-- name: list_history
-- Newest first. A removed memory keeps its number here.
SELECT id AS event_id, agent_identity AS theme, at, action, memory_id AS id, target, db_role, who, chars, encode(digest, 'hex') AS digest, old_theme, old_chars,
       encode(old_digest, 'hex') AS old_digest, left(old_content, %(chars)s) AS old_content
  FROM memory_history
 WHERE agent_identity = %(theme)s AND at >= %(since)s::timestamptz AND at < %(until)s::timestamptz
   AND (%(action)s::text IS NULL OR action = %(action)s)
   AND (%(target)s::text IS NULL OR target = %(target)s)
   AND (%(session_id)s::text IS NULL OR who ->> 'session_id' = %(session_id)s)
 ORDER BY at DESC, event_id DESC LIMIT %(limit)s OFFSET %(offset)s;

-- name: list_all_history
-- exempt: for the operator, of every theme.
SELECT id AS event_id, agent_identity AS theme, at, action, memory_id AS id, target, db_role, who, chars, encode(digest, 'hex') AS digest, old_theme,
       old_chars, encode(old_digest, 'hex') AS old_digest, left(old_content, %(chars)s) AS old_content
  FROM memory_history
 WHERE at >= %(since)s::timestamptz AND at < %(until)s::timestamptz AND (%(action)s::text IS NULL OR action = %(action)s)
 ORDER BY at DESC, event_id DESC LIMIT %(limit)s OFFSET %(offset)s;

-- name: history_of_memory
-- exempt: of one memory, by the number that an operator names; it may be removed, and even its theme may have no rows
-- left.
SELECT id AS event_id, agent_identity AS theme, at, action, memory_id AS id, target, db_role, who, chars, encode(digest, 'hex') AS digest, old_theme,
       old_chars, encode(old_digest, 'hex') AS old_digest, left(old_content, %(chars)s) AS old_content
  FROM memory_history WHERE memory_id = %(memory_id)s ORDER BY event_id DESC LIMIT %(limit)s OFFSET %(offset)s;

-- name: texts_after
-- exempt: of what happened to memories, by its numbers. The text that each event resulted in: the old text of the next
-- change, or else the present text.
SELECT h.id, left(coalesce(
           (SELECT later.old_content FROM memory_history AS later
             WHERE later.agent_identity = h.agent_identity AND later.memory_id = h.memory_id AND later.id > h.id AND later.old_digest = h.digest
             ORDER BY later.id LIMIT 1),
           (SELECT m.content FROM memory_entries AS m
             WHERE m.agent_identity = h.agent_identity AND m.id = h.memory_id AND substr(m.digest, 1, 8) = h.digest)),
       %(chars)s) AS content
  FROM memory_history AS h WHERE h.id = ANY(%(ids)s);
