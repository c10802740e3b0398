-- The statements of `reembed` besides those that build the new columns.

-- name: count_cold
-- exempt: a total for the operator, no stored text.
SELECT count(*) AS count FROM conversations WHERE embedding IS NULL AND sig IS NOT NULL;

-- name: cold_themes_turns
-- exempt: as due_themes_memories. Of turns whose vector `compact` has dropped.
SELECT agent_identity AS theme
  FROM (SELECT id, agent_identity FROM conversations
         WHERE embedding IS NULL AND sig IS NOT NULL AND may_be_embedded()
         ORDER BY id LIMIT %(limit)s) AS due
 GROUP BY agent_identity ORDER BY min(id);

-- name: claim_cold_turns
UPDATE conversations AS c SET embed_after = now() + make_interval(secs => %(lease_s)s)
 WHERE c.agent_identity = %(theme)s
   AND c.id IN (SELECT id FROM conversations
                 WHERE agent_identity = %(theme)s AND embedding IS NULL AND sig IS NOT NULL
                   AND may_be_embedded()
                 ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
RETURNING c.id, c.content;
