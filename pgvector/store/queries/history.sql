-- The history of memories. Its rows are written by triggers of memory_entries.

-- name: note_actor
-- exempt: touches no table. Records who makes the changes of this transaction from here on, whether what they remove can
-- be restored, and the home whose file dropped it.
SELECT set_config('hermes_pgvector.who', %(who)s, true) AS who, set_config('hermes_pgvector.origin', %(origin)s, true) AS origin,
       set_config('hermes_pgvector.keep_removed', %(keep_removed)s, true) AS keep_removed;

-- name: note_actor_everywhere
-- exempt: touches no table. One of these settings on every server, where the tables are spread by theme.
SET LOCAL {name} = {value};

-- name: forget_old_texts
-- Deletes what some memories of a theme, or all of them, said before.
UPDATE memory_history SET old_content = NULL, old_row = NULL
 WHERE agent_identity = %(theme)s AND old_content IS NOT NULL
   AND (%(ids)s::bigint[] IS NULL OR memory_id = ANY(%(ids)s));

-- name: forget_history
-- exempt: housekeeping of what happened long ago.
DELETE FROM memory_history WHERE at < LEAST(now(), %(now)s) - make_interval(days => %(days)s);

-- name: forget_removed_texts
-- exempt: housekeeping of what was removed long ago.
UPDATE memory_history SET old_content = NULL, old_row = NULL
 WHERE old_row IS NOT NULL AND at < LEAST(now(), %(now)s) - make_interval(days => %(days)s);
