-- Memories that a model proposes, the turns they come from, and the decisions on them.

-- name: unread_sessions
-- The sessions of a theme with turns that no model has read for facts, oldest first. Tool output and summaries are not read.
SELECT c.session_id, count(*) AS turns, min(c.ts) AS first_at, max(c.ts) AS last_at
  FROM conversations AS c
 WHERE c.agent_identity = %(theme)s AND c.ts >= %(since)s AND c.role IN ('user', 'assistant')
   AND NOT EXISTS (SELECT FROM hermes_read_turns AS r WHERE r.agent_identity = %(theme)s AND r.turn_id = c.id)
 GROUP BY c.session_id ORDER BY min(c.ts), c.session_id;

-- name: unread_turns
SELECT c.id, c.ts AS at, c.role, left(c.content, %(chars)s) AS content, c.metadata ->> 'platform' AS platform,
       c.metadata ->> 'profile' AS profile, c.metadata ->> 'chat_type' AS chat_type
  FROM conversations AS c
 WHERE c.agent_identity = %(theme)s AND c.session_id = %(session_id)s AND c.ts >= %(since)s
   AND c.role IN ('user', 'assistant')
   AND NOT EXISTS (SELECT FROM hermes_read_turns AS r WHERE r.agent_identity = %(theme)s AND r.turn_id = c.id)
 ORDER BY c.ts, c.id;

-- name: hold_turns
-- The turns that still exist, locked so that nobody deletes them before this transaction ends.
SELECT id FROM conversations WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s) ORDER BY id FOR KEY SHARE;

-- name: note_read
-- Returns the turns that no other run has read meanwhile.
INSERT INTO hermes_read_turns (agent_identity, turn_id)
SELECT c.agent_identity, c.id FROM conversations AS c WHERE c.agent_identity = %(theme)s AND c.id = ANY(%(ids)s)
ON CONFLICT DO NOTHING RETURNING turn_id;

-- name: said_already
-- The positions of the texts that a memory of the theme already has, or a proposal, including rejected ones.
SELECT given.place
  FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS given(content, place)
 WHERE lower(regexp_replace(rtrim(given.content, ' .'), '\s+', ' ', 'g')) IN (
       SELECT lower(regexp_replace(rtrim(m.content, ' .'), '\s+', ' ', 'g')) FROM memory_entries AS m
        WHERE m.agent_identity = %(theme)s
       UNION ALL
       SELECT lower(regexp_replace(rtrim(p.content, ' .'), '\s+', ' ', 'g')) FROM hermes_proposals AS p
        WHERE p.agent_identity = %(theme)s);

-- name: propose
INSERT INTO hermes_proposals (agent_identity, target, content, kind, subject, scope, confidence, sources, said_at, metadata)
VALUES (%(theme)s, %(target)s, %(content)s, %(kind)s, %(subject)s, %(scope)s, %(confidence)s, %(sources)s, %(said_at)s, %(metadata)s)
RETURNING id;

-- name: note_proposed
-- The proposal is deleted when any of these turns is.
UPDATE hermes_read_turns SET proposals = proposals || %(id)s::bigint
 WHERE agent_identity = %(theme)s AND turn_id = ANY(%(sources)s);

-- name: proposals
-- exempt: for the operator, of one theme or of all, or by their ids. Each with the memory that it would replace.
SELECT p.id, p.agent_identity AS theme, p.target, p.content, p.kind, p.subject, p.scope, p.confidence, p.sources, p.said_at,
       p.proposed_at, p.rejected_at, p.metadata, m.id AS rival, m.content AS rival_content, m.updated_at > p.said_at AS outdated
  FROM hermes_proposals AS p
  LEFT JOIN memory_entries AS m
         ON m.agent_identity = p.agent_identity AND lower(m.subject) = lower(p.subject) AND m.kind = p.kind
        AND coalesce(lower(m.scope), '') = coalesce(lower(p.scope), '') AND m.state = 'active'
 WHERE (%(theme)s::text IS NULL OR p.agent_identity = %(theme)s) AND (%(ids)s::bigint[] IS NULL OR p.id = ANY(%(ids)s))
   AND (%(ids)s::bigint[] IS NOT NULL OR (p.rejected_at IS NOT NULL) = %(rejected)s) AND p.confidence >= %(least)s::real
 ORDER BY p.agent_identity, p.id;

-- name: hold_proposal
-- The proposal, if it is as it was shown. SKIP LOCKED avoids a deadlock: whoever deletes a theme locks its proposals first,
-- then waits for the theme.
SELECT id FROM hermes_proposals
 WHERE agent_identity = %(theme)s AND id = %(id)s AND (rejected_at IS NOT NULL) = %(rejected)s
   AND (content, kind, subject, scope)
       IS NOT DISTINCT FROM (%(content)s::text, %(kind)s::text, %(subject)s::text, %(scope)s::text)
   FOR UPDATE SKIP LOCKED;

-- name: edit_proposal
UPDATE hermes_proposals SET content = %(content)s, kind = %(kind)s, subject = %(subject)s, scope = %(scope)s
 WHERE agent_identity = %(theme)s AND id = %(id)s;

-- name: reject_proposal
UPDATE hermes_proposals SET rejected_at = now() WHERE agent_identity = %(theme)s AND id = %(id)s AND rejected_at IS NULL;

-- name: remove_proposal
DELETE FROM hermes_proposals WHERE agent_identity = %(theme)s AND id = %(id)s;

-- name: facts_of_theme
-- The most recently written or confirmed ones first. A memory of no kind is a fact; one of no state is active.
SELECT m.id, m.target, m.created_at, m.updated_at AS at, left(m.content, %(chars)s) AS content, length(m.content) AS chars
  FROM memory_entries AS m
 WHERE m.agent_identity = %(theme)s AND m.updated_at >= %(since)s::timestamptz AND m.updated_at < %(until)s::timestamptz
   AND coalesce(m.kind, 'fact') = ANY(%(kinds)s)
   AND (%(subject)s::text IS NULL OR lower(m.subject) = lower(%(subject)s)
        OR starts_with(lower(m.subject), lower(%(subject)s) || '.'))
   AND (%(scope)s::text IS NULL OR lower(m.scope) = lower(%(scope)s))
   AND CASE %(state)s WHEN 'all' THEN true WHEN 'recalled' THEN is_current(m) ELSE coalesce(m.state, 'active') = %(state)s END
 ORDER BY m.updated_at DESC, m.id DESC LIMIT %(limit)s OFFSET %(offset)s;
