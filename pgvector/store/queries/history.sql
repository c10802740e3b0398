-- What happened to memories. The rows come from the triggers of memory_entries.

-- name: note_actor
-- exempt: touches no table. Who does what this transaction does from here on; and whether what they remove can be brought
-- back, with the home whose file let go of it.
SELECT set_config('hermes_pgvector.who', %(who)s, true) AS who, set_config('hermes_pgvector.origin', %(origin)s, true) AS origin,
       set_config('hermes_pgvector.keep_removed', %(keep_removed)s, true) AS keep_removed;

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

-- name: move_history
UPDATE memory_history SET agent_identity = %(into)s WHERE agent_identity = %(theme)s;

-- name: delete_history
DELETE FROM memory_history WHERE agent_identity = %(theme)s;

-- name: forget_old_texts
-- Of some memories of a theme, or of all, what they said before.
UPDATE memory_history SET old_content = NULL, old_row = NULL
 WHERE agent_identity = %(theme)s AND old_content IS NOT NULL
   AND (%(ids)s::bigint[] IS NULL OR memory_id = ANY(%(ids)s));

-- name: count_old_texts
SELECT count(*) AS count FROM memory_history
 WHERE agent_identity = %(theme)s AND old_content IS NOT NULL AND memory_id = ANY(%(ids)s);

-- name: forget_history
-- exempt: housekeeping of what happened long ago.
DELETE FROM memory_history WHERE at < now() - make_interval(days => %(days)s);

-- name: forget_removed
-- What removed memories said, and what said the same.
UPDATE memory_history AS h SET old_content = NULL, old_row = NULL
 WHERE h.agent_identity = %(theme)s AND h.old_content IS NOT NULL
   AND (h.memory_id = ANY(%(ids)s)
        OR h.old_digest IN (SELECT g.digest FROM memory_history AS g
                             WHERE g.agent_identity = %(theme)s AND g.memory_id = ANY(%(ids)s) AND g.old_row IS NOT NULL));

-- name: forget_removed_texts
-- exempt: housekeeping of what was removed long ago.
UPDATE memory_history SET old_content = NULL, old_row = NULL
 WHERE old_row IS NOT NULL AND at < now() - make_interval(days => %(days)s);
