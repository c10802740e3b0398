-- Queries about the entries of this home's memory files.

-- name: entries_of_files
-- exempt: this host's own files, whichever theme owns an entry. Each entry in every theme in which this home's files
-- hold it, or else in the theme of the files. Without a memory: whether it was removed, and which memory replaced it.
SELECT wanted.number, place.theme, m.id, m.updated_at, m.owners, m.state, m.expires_at <= now() AS expired,
       gone.removed_at IS NOT NULL AND (place.noted OR gone.removed_at >= wanted.file_time) OR place.noted AND m.id IS NULL
           AS removed,
       successor.id AS successor, left(successor.content, %(chars)s) AS successor_content
  FROM unnest(%(targets)s::text[], %(contents)s::text[], %(file_times)s::timestamptz[])
       WITH ORDINALITY AS wanted(target, content, file_time, number)
 CROSS JOIN LATERAL (SELECT hermes_digest(wanted.content) AS digest) AS of_text
 CROSS JOIN LATERAL (
    SELECT f.agent_identity AS theme, f.kept_at IS NULL AS noted FROM hermes_mirror AS f
     WHERE f.origin = %(origin)s AND f.target = wanted.target AND f.digest = of_text.digest
    UNION ALL
    SELECT %(theme)s, false
     WHERE NOT EXISTS (SELECT FROM hermes_mirror AS f
                        WHERE f.origin = %(origin)s AND f.target = wanted.target AND f.digest = of_text.digest)) AS place
  LEFT JOIN memory_entries AS m
    ON m.agent_identity = place.theme AND m.target = wanted.target AND m.digest = of_text.digest
  LEFT JOIN hermes_tombstones AS gone
    ON m.id IS NULL AND gone.agent_identity = place.theme AND gone.target = wanted.target AND gone.digest = of_text.digest
  LEFT JOIN LATERAL (
    SELECT next.id, next.content FROM memory_history AS h
      JOIN memory_entries AS next ON next.agent_identity = h.agent_identity AND next.id = h.memory_id
     WHERE m.id IS NULL AND h.agent_identity = place.theme AND h.target = wanted.target AND h.action = 'replaced'
       AND h.old_digest = substr(of_text.digest, 1, 8)
    UNION ALL
    SELECT next.id, next.content FROM memory_entries AS next
     WHERE next.agent_identity = place.theme AND next.replaces = m.id
     ORDER BY id DESC LIMIT 1) AS successor ON true
 ORDER BY wanted.number, place.theme;

-- name: similarities
-- The similarity of a memory to others of its theme, if both have a vector.
SELECT a.id AS one, b.id AS other, 1 - (a.embedding <=> b.embedding) AS similarity
  FROM memory_entries AS a JOIN memory_entries AS b ON b.agent_identity = a.agent_identity
 WHERE a.agent_identity = %(theme)s AND a.id = %(id)s AND b.id = ANY(%(others)s)
   AND a.embedding IS NOT NULL AND b.embedding IS NOT NULL;

-- name: turns_since
-- The given themes that have turns since then: without turns, nothing tells which entries are used.
SELECT DISTINCT ON (c.agent_identity) c.agent_identity AS theme FROM unnest(%(themes)s::text[]) AS wanted(theme)
  JOIN LATERAL (SELECT agent_identity FROM conversations
                 WHERE agent_identity = wanted.theme AND ts >= %(since)s LIMIT 1) AS c ON true;

-- name: own_relieved
-- Keeps a memory whatever the file holds, without changing its times.
UPDATE memory_entries AS m SET owners = array_append(array_remove(m.owners, 'relieve'), 'relieve')
 WHERE m.agent_identity = %(theme)s AND m.id = ANY(%(ids)s);

-- name: relieved_texts
-- The given entries that the database holds. `owned`: it keeps them whatever the file holds.
SELECT m.agent_identity AS theme, m.target, m.digest, m.content, 'relieve' = ANY(m.owners) AS owned
  FROM unnest(%(themes)s::text[], %(targets)s::text[], %(digests)s::bytea[]) AS wanted(theme, target, digest)
  JOIN memory_entries AS m
    ON m.agent_identity = wanted.theme AND m.target = wanted.target AND m.digest = wanted.digest;
