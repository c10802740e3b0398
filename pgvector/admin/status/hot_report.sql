-- The themes that have something for their hot block.

-- name: hot_themes
-- exempt: names for the operator, no stored text. Found one by one along a partial index.
WITH RECURSIVE themes(theme) AS (
    (SELECT agent_identity FROM memory_entries WHERE state IS NOT NULL OR pinned ORDER BY agent_identity LIMIT 1)
    UNION ALL
    SELECT (SELECT agent_identity FROM memory_entries
             WHERE (state IS NOT NULL OR pinned) AND agent_identity > t.theme ORDER BY agent_identity LIMIT 1)
      FROM themes AS t WHERE t.theme IS NOT NULL)
SELECT theme FROM themes WHERE theme IS NOT NULL LIMIT %(limit)s;

-- name: hot_themes_spread
-- exempt: as hot_themes, where the tables are distributed over machines, each of which reads its own.
SELECT DISTINCT agent_identity AS theme FROM memory_entries WHERE state IS NOT NULL OR pinned ORDER BY 1 LIMIT %(limit)s;
