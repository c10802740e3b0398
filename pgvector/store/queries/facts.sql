-- Memories that say what they are about, by state, kind, scope and subject.

-- name: list_facts
-- Most recently said first. A memory that has expired counts as archived.
SELECT id, kind, subject, scope, CASE WHEN expires_at <= now() THEN 'archived' ELSE state END AS state, left(content, %(chars)s) AS content,
       updated_at AS at, expires_at, applies_when, confidence, pinned
  FROM memory_entries
 WHERE agent_identity = %(theme)s AND state IS NOT NULL
   AND CASE WHEN expires_at <= now() THEN 'archived' ELSE state END = ANY(%(states)s::text[])
   AND (%(kind)s::text IS NULL OR kind = %(kind)s)
   AND (%(scope)s::text IS NULL OR lower(scope) = lower(%(scope)s))
   AND (%(subject)s::text IS NULL OR lower(subject) = lower(%(subject)s) OR starts_with(lower(subject), lower(%(subject)s) || '.'))
   AND (%(before)s::timestamptz IS NULL OR updated_at < %(before)s::timestamptz)
 ORDER BY updated_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s;
