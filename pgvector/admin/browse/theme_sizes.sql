-- How much themes hold, and how they grew, read along the indexes of themes and times.

-- name: theme_sizes
-- exempt: counts and times for the operator, no stored text. At most `most` rows are counted.
SELECT asked.theme, memories.count AS memories, turns.count AS turns, greatest(memories.last_at, turns.last_at) AS last_at
  FROM unnest(%(themes)s::text[]) WITH ORDINALITY AS asked(theme, place)
 CROSS JOIN LATERAL (
       SELECT (SELECT count(*) FROM (SELECT FROM memory_entries WHERE agent_identity = theme LIMIT %(most)s) AS few) AS count,
              (SELECT created_at FROM memory_entries WHERE agent_identity = theme ORDER BY created_at DESC LIMIT 1) AS last_at
       ) AS memories
 CROSS JOIN LATERAL (
       SELECT (SELECT count(*) FROM (SELECT FROM conversations WHERE agent_identity = theme LIMIT %(most)s) AS few) AS count,
              (SELECT ts FROM conversations WHERE agent_identity = theme ORDER BY ts DESC LIMIT 1) AS last_at
       ) AS turns
 ORDER BY asked.place;

-- name: largest_themes
-- exempt: names for the operator, no stored text.
SELECT theme FROM (
    SELECT agent_identity AS theme, count(*) AS count FROM conversations GROUP BY 1
    UNION ALL
    SELECT agent_identity, count(*) FROM memory_entries GROUP BY 1) AS counted
 GROUP BY theme ORDER BY sum(count) DESC, theme LIMIT %(limit)s;

-- name: likely_largest_themes
-- exempt: names for the operator from the planner's statistics, no stored text.
SELECT common.theme
  FROM pg_stats AS s JOIN pg_namespace AS n ON n.nspname = s.schemaname
  JOIN pg_class AS c ON c.relname = s.tablename AND c.relnamespace = n.oid
 CROSS JOIN LATERAL unnest(s.most_common_vals::text::text[], s.most_common_freqs) AS common(theme, share)
 WHERE c.oid IN ('memory_entries'::regclass, 'conversations'::regclass) AND s.attname = 'agent_identity'
 GROUP BY 1 ORDER BY sum(common.share * c.reltuples) DESC, 1 LIMIT %(limit)s;

-- name: growth
-- exempt: totals for the operator, no stored text. The themes are found one by one along an index, and each theme's
-- last days at the end of the same index.
WITH RECURSIVE turn_themes(theme) AS (walked_themes(conversations; turn_themes)),
memory_themes(theme) AS (walked_themes(memory_entries; memory_themes))
SELECT (each.at AT TIME ZONE 'UTC')::date AS day, count(*) FILTER (WHERE each.memory) AS memories,
       count(*) FILTER (WHERE NOT each.memory) AS turns
  FROM (SELECT c.ts AS at, false AS memory FROM turn_themes AS t
         CROSS JOIN LATERAL (SELECT ts FROM conversations WHERE agent_identity = t.theme AND ts >= %(since)s::timestamptz
                              ORDER BY ts DESC OFFSET 0) AS c
        UNION ALL
        SELECT m.created_at, true FROM memory_themes AS t
         CROSS JOIN LATERAL (SELECT created_at FROM memory_entries
                              WHERE agent_identity = t.theme AND created_at >= %(since)s::timestamptz
                              ORDER BY created_at DESC OFFSET 0) AS m) AS each
 GROUP BY 1 ORDER BY 1;

-- name: growth_spread
-- exempt: as growth, for tables distributed over machines, each of which counts its own themes.
WITH said AS (
    SELECT (ts AT TIME ZONE 'UTC')::date AS day, count(*) AS count FROM conversations WHERE ts >= %(since)s::timestamptz GROUP BY 1),
noted AS (
    SELECT (created_at AT TIME ZONE 'UTC')::date AS day, count(*) AS count FROM memory_entries
     WHERE created_at >= %(since)s::timestamptz GROUP BY 1)
SELECT day, coalesce(noted.count, 0) AS memories, coalesce(said.count, 0) AS turns
  FROM said FULL JOIN noted USING (day) ORDER BY day;

-- name: theme_by_day
SELECT (each.at AT TIME ZONE 'UTC')::date AS day, count(*) FILTER (WHERE each.memory) AS memories,
       count(*) FILTER (WHERE NOT each.memory) AS turns
  FROM (SELECT ts AS at, false AS memory FROM conversations WHERE agent_identity = %(theme)s
        UNION ALL
        SELECT created_at, true FROM memory_entries WHERE agent_identity = %(theme)s) AS each
 GROUP BY 1 ORDER BY 1;

-- name: theme_sessions
SELECT count(DISTINCT session_id) AS sessions FROM conversations WHERE agent_identity = %(theme)s;

-- name: writers
-- Reads the newest `most` rows of each table.
SELECT profile, platform, host, source, count(*) FILTER (WHERE memory) AS memories, count(*) FILTER (WHERE NOT memory) AS turns,
       max(at) AS last_at
  FROM (SELECT metadata ->> 'profile' AS profile, metadata ->> 'platform' AS platform, metadata ->> 'host' AS host,
               metadata ->> 'source' AS source, at, memory
          FROM ((SELECT metadata, ts AS at, false AS memory FROM conversations WHERE agent_identity = %(theme)s
                  ORDER BY ts DESC LIMIT %(most)s)
                UNION ALL
                (SELECT metadata, created_at, true FROM memory_entries WHERE agent_identity = %(theme)s
                  ORDER BY created_at DESC LIMIT %(most)s)) AS newest) AS each
 GROUP BY 1, 2, 3, 4 ORDER BY max(at) DESC;

-- name: describe_theme
SELECT (SELECT count(*) FROM memory_entries WHERE agent_identity = %(theme)s) AS memories,
       (SELECT count(*) FROM conversations WHERE agent_identity = %(theme)s) AS turns,
       least((SELECT min(created_at) FROM memory_entries WHERE agent_identity = %(theme)s),
             (SELECT min(ts) FROM conversations WHERE agent_identity = %(theme)s)) AS first_at,
       greatest((SELECT max(created_at) FROM memory_entries WHERE agent_identity = %(theme)s),
                (SELECT max(ts) FROM conversations WHERE agent_identity = %(theme)s)) AS last_at,
       EXISTS (SELECT FROM memory_entries WHERE agent_identity = %(theme)s AND (state IS NOT NULL OR pinned)) AS facts;
