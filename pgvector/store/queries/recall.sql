-- What recall reads.

-- name: begin_vectors
-- exempt: touches no table.
SELECT set_config('statement_timeout', coalesce(%(statement_ms)s, current_setting('statement_timeout')), true) AS statement,
       set_config('plan_cache_mode', 'force_generic_plan', true) AS plans;

-- name: vector_search_memories
-- `+ 0` keeps every other index out: the signatures of one theme come from its covering index, then the nearest are
-- reranked exactly. `OFFSET 0` has these looked up one by one, where a planner without the sizes at hand may read the
-- whole table for them. In a large theme more of them are taken. Pending rows are left out by `sig IS NOT NULL`, which that index holds, never by the embedding,
-- which it does not.
WITH candidates AS MATERIALIZED (
    SELECT id FROM memory_entries
     WHERE agent_identity = %(theme)s AND sig IS NOT NULL
     ORDER BY (sig <~> (SELECT binary_quantize(%(vector)s))) + 0
     LIMIT CASE WHEN EXISTS (SELECT FROM memory_entries
                              WHERE agent_identity = %(theme)s AND sig IS NOT NULL OFFSET %(large)s)
                THEN %(deep)s ELSE %(depth)s END)
SELECT id, 1 - (embedding <=> %(vector)s) AS similarity
  FROM candidates CROSS JOIN LATERAL (SELECT embedding FROM memory_entries AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY (embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_memories_filtered
-- The filter stands before the cut, so that a rare target or session is not cut away.
WITH candidates AS MATERIALIZED (
    SELECT id FROM memory_entries
     WHERE agent_identity = %(theme)s AND sig IS NOT NULL
       AND (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND updated_at >= (SELECT %(since)s::timestamptz) AND updated_at < (SELECT %(until)s::timestamptz)
       AND readable(memory_entries)
     ORDER BY (sig <~> (SELECT binary_quantize(%(vector)s))) + 0
     LIMIT CASE WHEN EXISTS (SELECT FROM memory_entries
                              WHERE agent_identity = %(theme)s AND sig IS NOT NULL OFFSET %(large)s)
                THEN %(deep)s ELSE %(depth)s END)
SELECT id, 1 - (embedding <=> %(vector)s) AS similarity
  FROM candidates CROSS JOIN LATERAL (SELECT embedding FROM memory_entries AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY (embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: vector_search_memories_all
-- exempt: the explicit scope 'all', of what is readable. What an index does not tell of that is looked at in the rows that
-- are near; `thin`, where that leaves so few that others may have been cut away, which the statement with a filter finds.
WITH candidates AS MATERIALIZED (
    SELECT id FROM memory_entries
     WHERE sig IS NOT NULL AND reachable(memory_entries)
     ORDER BY (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 LIMIT %(depth)s),
passed AS MATERIALIZED (
    SELECT candidates.id, embedding <=> %(vector)s AS distance
      FROM candidates CROSS JOIN LATERAL (
           SELECT embedding FROM memory_entries AS t WHERE t.id = candidates.id AND readable(t) OFFSET 0) AS near)
SELECT id, 1 - distance AS similarity,
       (SELECT count(*) FROM candidates) >= %(depth)s
         AND (SELECT count(*) FROM passed) < greatest(%(limit)s, %(depth)s / 3) AS thin
  FROM passed ORDER BY distance + 0 LIMIT %(limit)s;

-- name: vector_search_memories_all_filtered
-- exempt: the explicit scope 'all', of what is readable.
WITH candidates AS MATERIALIZED (
    SELECT id FROM memory_entries
     WHERE sig IS NOT NULL
       AND (%(target)s::text IS NULL OR target = %(target)s)
       AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz
       AND readable(memory_entries)
     ORDER BY (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 LIMIT %(depth)s)
SELECT id, 1 - (embedding <=> %(vector)s) AS similarity
  FROM candidates CROSS JOIN LATERAL (SELECT embedding FROM memory_entries AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY (embedding <=> %(vector)s) + 0 LIMIT %(limit)s;

-- name: walk_vectors
-- exempt: touches no table. How vectors come from their graph. That they do, though the planner takes the table for small
-- or the LIMIT for large, is because of `set_timeouts`: any other way would be a sort.
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true) AS iterative,
       set_config('hnsw.ef_search', %(breadth)s::text, true) AS breadth,
       set_config('hnsw.max_scan_tuples', %(most)s::text, true) AS most,
       set_config('hnsw.scan_mem_multiplier', '8', true) AS memory;

-- name: plan_for_values
-- exempt: touches no table. Whether a filter across all themes lets one row pass or all, no plan can serve both.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true) AS mode;

-- name: has_graph
-- exempt: reads the catalogue only. An operator may have dropped the index for a bulk load, or a build may have failed.
SELECT EXISTS (SELECT FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam
                WHERE i.indrelid = %(table)s::regclass AND i.indisvalid AND a.amname = 'hnsw') AS found;

-- name: vector_search_memories_walk
-- exempt: the explicit scope 'all', of what is readable. After `walk_vectors`: the index gives rows nearly in order, and goes on until enough
-- have passed the filter.
WITH candidates AS MATERIALIZED (
    SELECT id, embedding <=> %(vector)s AS distance FROM memory_entries
     WHERE (%(target)s::text IS NULL OR target = %(target)s)
       AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz
       AND readable(memory_entries)
     ORDER BY embedding <=> %(vector)s LIMIT %(depth)s)
SELECT id, 1 - distance AS similarity FROM candidates ORDER BY distance + 0 LIMIT %(limit)s;

-- name: estimate_matches_memories
-- exempt: the explicit scope 'all'. As estimate_rows_memories, of the rows that pass a filter.
EXPLAIN (FORMAT JSON) SELECT FROM memory_entries
 WHERE (%(target)s::text IS NULL OR target = %(target)s)
   AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz;

-- name: vector_search_turns
-- As vector_search_memories. Where `compact` has dropped the vector of an old turn, its distance is estimated from how many
-- signs differ, on the scale that `compact` has measured: of real models, angles told by signs alone are far too wide.
WITH candidates AS MATERIALIZED (
    SELECT id, (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 AS bits FROM conversations
     WHERE agent_identity = %(theme)s AND sig IS NOT NULL
     ORDER BY bits
     LIMIT CASE WHEN EXISTS (SELECT FROM conversations
                              WHERE agent_identity = %(theme)s AND sig IS NOT NULL OFFSET %(large)s)
                THEN %(deep)s ELSE %(depth)s END)
SELECT id, 1 - distance AS similarity
  FROM candidates CROSS JOIN LATERAL (
       SELECT coalesce(embedding <=> %(vector)s,
                       greatest(0, 1 - (SELECT sig_offset FROM hermes_embedding)
                                     - (SELECT sig_slope FROM hermes_embedding) * cos(pi() * bits / vector_dims(%(vector)s)))) AS distance
         FROM conversations AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY distance + 0 LIMIT %(limit)s;

-- name: vector_search_turns_filtered
WITH candidates AS MATERIALIZED (
    SELECT id, (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 AS bits FROM conversations
     WHERE agent_identity = %(theme)s AND sig IS NOT NULL
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= (SELECT %(since)s::timestamptz) AND ts < (SELECT %(until)s::timestamptz)
       AND readable(conversations)
     ORDER BY bits
     LIMIT CASE WHEN EXISTS (SELECT FROM conversations
                              WHERE agent_identity = %(theme)s AND sig IS NOT NULL OFFSET %(large)s)
                THEN %(deep)s ELSE %(depth)s END)
SELECT id, 1 - distance AS similarity
  FROM candidates CROSS JOIN LATERAL (
       SELECT coalesce(embedding <=> %(vector)s,
                       greatest(0, 1 - (SELECT sig_offset FROM hermes_embedding)
                                     - (SELECT sig_slope FROM hermes_embedding) * cos(pi() * bits / vector_dims(%(vector)s)))) AS distance
         FROM conversations AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY distance + 0 LIMIT %(limit)s;

-- name: vector_search_turns_session
WITH candidates AS MATERIALIZED (
    SELECT id, (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 AS bits FROM conversations
     WHERE agent_identity = %(theme)s AND session_id = %(session_id)s AND sig IS NOT NULL
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= (SELECT %(since)s::timestamptz) AND ts < (SELECT %(until)s::timestamptz)
     ORDER BY bits LIMIT %(depth)s)
SELECT id, 1 - distance AS similarity
  FROM candidates CROSS JOIN LATERAL (
       SELECT coalesce(embedding <=> %(vector)s,
                       greatest(0, 1 - (SELECT sig_offset FROM hermes_embedding)
                                     - (SELECT sig_slope FROM hermes_embedding) * cos(pi() * bits / vector_dims(%(vector)s)))) AS distance
         FROM conversations AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY distance + 0 LIMIT %(limit)s;

-- name: vector_search_turns_all
-- exempt: the explicit scope 'all', as vector_search_memories_all.
WITH candidates AS MATERIALIZED (
    SELECT id, (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 AS bits FROM conversations
     WHERE sig IS NOT NULL AND reachable(conversations)
     ORDER BY bits LIMIT %(depth)s),
passed AS MATERIALIZED (
    SELECT candidates.id, distance
      FROM candidates CROSS JOIN LATERAL (
           SELECT coalesce(embedding <=> %(vector)s,
                           greatest(0, 1 - (SELECT sig_offset FROM hermes_embedding)
                                         - (SELECT sig_slope FROM hermes_embedding) * cos(pi() * bits / vector_dims(%(vector)s)))) AS distance
             FROM conversations AS t WHERE t.id = candidates.id AND readable(t) OFFSET 0) AS near)
SELECT id, 1 - distance AS similarity,
       (SELECT count(*) FROM candidates) >= %(depth)s
         AND (SELECT count(*) FROM passed) < greatest(%(limit)s, %(depth)s / 3) AS thin
  FROM passed ORDER BY distance + 0 LIMIT %(limit)s;

-- name: vector_search_turns_all_filtered
-- exempt: the explicit scope 'all', of what is readable.
WITH candidates AS MATERIALIZED (
    SELECT id, (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 AS bits FROM conversations
     WHERE sig IS NOT NULL
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
       AND readable(conversations)
     ORDER BY bits LIMIT %(depth)s)
SELECT id, 1 - distance AS similarity
  FROM candidates CROSS JOIN LATERAL (
       SELECT coalesce(embedding <=> %(vector)s,
                       greatest(0, 1 - (SELECT sig_offset FROM hermes_embedding)
                                     - (SELECT sig_slope FROM hermes_embedding) * cos(pi() * bits / vector_dims(%(vector)s)))) AS distance
         FROM conversations AS t WHERE t.id = candidates.id OFFSET 0) AS t
 ORDER BY distance + 0 LIMIT %(limit)s;

-- name: vector_search_turns_walk
-- exempt: the explicit scope 'all', of what is readable. After `walk_vectors`: the index gives rows nearly in order, and goes on until enough
-- have passed the filter.
WITH candidates AS MATERIALIZED (
    SELECT id, embedding <=> %(vector)s AS distance FROM conversations
     WHERE (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz
       AND readable(conversations)
     ORDER BY embedding <=> %(vector)s LIMIT %(depth)s)
SELECT id, 1 - distance AS similarity FROM candidates ORDER BY distance + 0 LIMIT %(limit)s;

-- name: vector_search_turns_cold
-- exempt: the explicit scope 'all', of what is readable. What the graph does not hold: turns that `compact` has left their
-- signature only. The index tells no theme of theirs, so of the nearest those are kept that are readable.
WITH candidates AS MATERIALIZED (
    SELECT id, (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 AS bits FROM conversations
     WHERE embedding IS NULL AND sig IS NOT NULL
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= (SELECT %(since)s::timestamptz) AND ts < (SELECT %(until)s::timestamptz)
     ORDER BY bits LIMIT %(depth)s)
SELECT candidates.id, least(1, (SELECT sig_offset FROM hermes_embedding) + (SELECT sig_slope FROM hermes_embedding)
                               * cos(pi() * bits / vector_dims(%(vector)s))) AS similarity
  FROM candidates CROSS JOIN LATERAL (SELECT FROM conversations AS t WHERE t.id = candidates.id AND readable(t) OFFSET 0) AS near
 ORDER BY bits LIMIT %(limit)s;

-- name: estimate_matches_turns
-- exempt: the explicit scope 'all'. As estimate_rows_turns, of the rows that pass a filter.
EXPLAIN (FORMAT JSON) SELECT FROM conversations
 WHERE (%(role)s::text IS NULL OR role = %(role)s)
   AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz;

-- name: chunk_search_memories
-- The parts of long texts, as vector_search_memories; a row counts by its nearest part. The filter is looked at only where
-- there is one.
WITH candidates AS MATERIALIZED (
    SELECT row_id, part FROM memory_chunks
     WHERE agent_identity = %(theme)s
       AND CASE WHEN %(restricted)s OR %(own)s::text IS NULL THEN EXISTS (
             SELECT FROM memory_entries AS t WHERE t.id = row_id
                AND (%(target)s::text IS NULL OR target = %(target)s)
                AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
                AND updated_at >= (SELECT %(since)s::timestamptz) AND updated_at < (SELECT %(until)s::timestamptz)
                AND readable(t)) ELSE true END
     ORDER BY (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 LIMIT %(depth)s)
SELECT row_id AS id, 1 - min(embedding <=> %(vector)s) AS similarity
  FROM candidates JOIN memory_chunks USING (row_id, part)
 GROUP BY row_id ORDER BY 2 DESC, row_id LIMIT %(limit)s;

-- name: chunk_search_memories_all
-- exempt: the explicit scope 'all', as vector_search_memories_all.
WITH candidates AS MATERIALIZED (
    SELECT row_id, part FROM memory_chunks
     WHERE reachable(memory_chunks)
       AND CASE WHEN %(restricted)s THEN EXISTS (
             SELECT FROM memory_entries AS t WHERE t.id = row_id
                AND (%(target)s::text IS NULL OR target = %(target)s)
                AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
                AND updated_at >= (SELECT %(since)s::timestamptz) AND updated_at < (SELECT %(until)s::timestamptz)
                AND readable(t)) ELSE true END
     ORDER BY (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 LIMIT %(depth)s),
passed AS MATERIALIZED (
    SELECT row_id, k.embedding <=> %(vector)s AS distance
      FROM candidates JOIN memory_chunks AS k USING (row_id, part)
      JOIN memory_entries AS t ON t.id = row_id AND readable(t))
SELECT row_id AS id, 1 - min(distance) AS similarity,
       (SELECT count(*) FROM candidates) >= %(depth)s
         AND (SELECT count(*) FROM passed) < greatest(%(limit)s, %(depth)s / 3) AS thin
  FROM passed
 GROUP BY row_id ORDER BY 2 DESC, row_id LIMIT %(limit)s;

-- name: chunk_search_turns
WITH candidates AS MATERIALIZED (
    SELECT row_id, part, (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 AS bits FROM conversation_chunks
     WHERE agent_identity = %(theme)s
       AND CASE WHEN %(restricted)s OR %(own)s::text IS NULL THEN EXISTS (
             SELECT FROM conversations AS t WHERE t.id = row_id
                AND (%(role)s::text IS NULL OR role = %(role)s)
                AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
                AND ts >= (SELECT %(since)s::timestamptz) AND ts < (SELECT %(until)s::timestamptz)
                AND readable(t)) ELSE true END
     ORDER BY bits LIMIT %(depth)s)
SELECT row_id AS id,
       1 - min(coalesce(embedding <=> %(vector)s,
                        greatest(0, 1 - (SELECT sig_offset FROM hermes_embedding)
                                      - (SELECT sig_slope FROM hermes_embedding) * cos(pi() * bits / vector_dims(%(vector)s))))) AS similarity
  FROM candidates JOIN conversation_chunks USING (row_id, part)
 GROUP BY row_id ORDER BY 2 DESC, row_id LIMIT %(limit)s;

-- name: chunk_search_turns_all
-- exempt: the explicit scope 'all', as vector_search_memories_all.
WITH candidates AS MATERIALIZED (
    SELECT row_id, part, (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 AS bits FROM conversation_chunks
     WHERE reachable(conversation_chunks)
       AND CASE WHEN %(restricted)s THEN EXISTS (
             SELECT FROM conversations AS t WHERE t.id = row_id
                AND (%(role)s::text IS NULL OR role = %(role)s)
                AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
                AND ts >= (SELECT %(since)s::timestamptz) AND ts < (SELECT %(until)s::timestamptz)
                AND readable(t)) ELSE true END
     ORDER BY bits LIMIT %(depth)s),
passed AS MATERIALIZED (
    SELECT row_id, coalesce(k.embedding <=> %(vector)s,
                        greatest(0, 1 - (SELECT sig_offset FROM hermes_embedding)
                                      - (SELECT sig_slope FROM hermes_embedding) * cos(pi() * bits / vector_dims(%(vector)s)))) AS distance
      FROM candidates JOIN conversation_chunks AS k USING (row_id, part)
      JOIN conversations AS t ON t.id = row_id AND readable(t))
SELECT row_id AS id, 1 - min(distance) AS similarity,
       (SELECT count(*) FROM candidates) >= %(depth)s
         AND (SELECT count(*) FROM passed) < greatest(%(limit)s, %(depth)s / 3) AS thin
  FROM passed
 GROUP BY row_id ORDER BY 2 DESC, row_id LIMIT %(limit)s;

-- name: neighbours
-- The turns right before and after each of some turns, in the same session of the same theme,
-- nearest first. A CASE keeps the indexes of the theme out: one of them, read whole for every turn, is what the planner
-- likes to add to the session's.
SELECT c.id,
       ARRAY(SELECT p.id FROM conversations AS p
              WHERE p.session_id = c.session_id AND (p.ts, p.id) < (c.ts, c.id)
                AND CASE WHEN p.agent_identity = c.agent_identity THEN true ELSE false END AND readable(p)
              ORDER BY p.ts DESC, p.id DESC LIMIT %(reach)s) AS before,
       ARRAY(SELECT n.id FROM conversations AS n
              WHERE n.session_id = c.session_id AND (n.ts, n.id) > (c.ts, c.id)
                AND CASE WHEN n.agent_identity = c.agent_identity THEN true ELSE false END AND readable(n)
              ORDER BY n.ts, n.id LIMIT %(reach)s) AS after
  FROM conversations AS c
 WHERE c.id = ANY(%(ids)s) AND CASE WHEN c.agent_identity = %(theme)s THEN true ELSE %(any_theme)s END AND readable(c);

-- name: dated_memories
-- Which of some rows were written in one of some periods.
SELECT id FROM memory_entries
 WHERE id = ANY(%(ids)s) AND CASE WHEN agent_identity = %(theme)s THEN true ELSE %(any_theme)s END AND readable(memory_entries)
   AND EXISTS (SELECT FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS period(start, stop)
                WHERE updated_at >= start AND updated_at < stop);

-- name: dated_turns
SELECT id FROM conversations
 WHERE id = ANY(%(ids)s) AND CASE WHEN agent_identity = %(theme)s THEN true ELSE %(any_theme)s END AND readable(conversations)
   AND EXISTS (SELECT FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS period(start, stop)
                WHERE ts >= start AND ts < stop);

-- name: read_question
-- exempt: touches no table. The words of each text as the index knows them. Besides: "the newest 1,000 rows" must walk an
-- index in order; where the planner takes a theme for small (a generic plan, no ANALYZE yet), it would else collect the
-- whole theme and sort it. For words that are not sorted, tsvectors being so already, that costs nothing. And the plans of
-- what follows are made once a connection, not for each question anew, which takes longer than to search a small theme.
SELECT number, tsvector_to_array(hermes_lexemes(body, language)) AS terms,
       to_regprocedure('similarity(text,text)') IS NOT NULL AS has_trigrams,
       set_config('enable_sort', 'off', true) AS sort,
       set_config('plan_cache_mode', 'force_generic_plan', true) AS plans
  FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS given(body, number)
 CROSS JOIN unnest(%(languages)s::text[]) AS language;

-- name: count_some_memories
-- How many rows a theme has, up to 5,001: of more it only matters that they are more.
SELECT count(*) AS rows FROM (
    SELECT FROM memory_entries WHERE agent_identity = %(theme)s ORDER BY created_at DESC LIMIT 5001) AS counted;

-- name: count_some_memories_all
-- exempt: the explicit scope 'all'.
SELECT count(*) AS rows FROM (SELECT FROM memory_entries LIMIT 5001) AS counted;

-- name: count_some_turns
SELECT count(*) AS rows FROM (
    SELECT FROM conversations WHERE agent_identity = %(theme)s ORDER BY ts DESC LIMIT 5001) AS counted;

-- name: count_some_turns_all
-- exempt: the explicit scope 'all'.
SELECT count(*) AS rows FROM (SELECT FROM conversations LIMIT 5001) AS counted;

-- name: query_terms_memories
-- In how many rows of a sample each word of a question stands; up to 5,000 rows are searched exactly and need no sample.
WITH words AS MATERIALIZED (
    SELECT matcher, matcher::tsquery AS query FROM unnest(%(matchers)s::text[]) AS matcher),
sample AS MATERIALIZED (
    SELECT tsv FROM memory_entries WHERE agent_identity = %(theme)s AND readable(memory_entries)
     ORDER BY created_at DESC LIMIT 1000)
SELECT matcher, (SELECT count(*) FROM sample) AS sampled,
       (SELECT count(*) FROM sample WHERE tsv @@ query) AS holding
  FROM words;

-- name: query_terms_memories_all
-- exempt: the explicit scope 'all', of what is readable.
WITH words AS MATERIALIZED (
    SELECT matcher, matcher::tsquery AS query FROM unnest(%(matchers)s::text[]) AS matcher),
sample AS MATERIALIZED (
    SELECT tsv FROM (SELECT agent_identity, tsv, metadata FROM memory_entries ORDER BY id DESC LIMIT 10000) AS last
     WHERE readable(last) LIMIT 1000)
SELECT matcher, (SELECT count(*) FROM sample) AS sampled,
       (SELECT count(*) FROM sample WHERE tsv @@ query) AS holding
  FROM words;

-- name: query_terms_turns
-- As query_terms_memories; a part of the sample is spread over the theme's whole time, for what is talked about changes.
WITH words AS MATERIALIZED (
    SELECT matcher, matcher::tsquery AS query FROM unnest(%(matchers)s::text[]) AS matcher),
span AS (
    SELECT min(ts) AS first, max(ts) - min(ts) AS width FROM conversations WHERE agent_identity = %(theme)s),
sample AS MATERIALIZED (
    SELECT DISTINCT ON (id) id, tsv FROM (
        (SELECT id, tsv FROM conversations WHERE agent_identity = %(theme)s AND readable(conversations)
          ORDER BY ts DESC LIMIT 700)
        UNION ALL
        (SELECT one.id, one.tsv
           FROM span CROSS JOIN generate_series(1, 300) AS k
          CROSS JOIN LATERAL (SELECT id, agent_identity, tsv, metadata FROM conversations
                               WHERE agent_identity = %(theme)s AND ts >= span.first + span.width * (k / 301.0::float8)
                               ORDER BY ts LIMIT 1) AS one
          WHERE readable(one))) AS rows)
SELECT matcher, (SELECT count(*) FROM sample) AS sampled,
       (SELECT count(*) FROM sample WHERE tsv @@ query) AS holding
  FROM words;

-- name: query_terms_turns_all
-- exempt: the explicit scope 'all', of what is readable.
WITH words AS MATERIALIZED (
    SELECT matcher, matcher::tsquery AS query FROM unnest(%(matchers)s::text[]) AS matcher),
span AS (
    SELECT min(id) AS first, max(id) - min(id) AS width FROM conversations),
sample AS MATERIALIZED (
    SELECT DISTINCT ON (id) id, tsv FROM (
        (SELECT id, tsv FROM (SELECT id, agent_identity, tsv, metadata FROM conversations ORDER BY id DESC LIMIT 10000) AS last
          WHERE readable(last) LIMIT 700)
        UNION ALL
        (SELECT one.id, one.tsv
           FROM span CROSS JOIN generate_series(1, 300) AS k
          CROSS JOIN LATERAL (SELECT id, agent_identity, tsv, metadata FROM conversations
                               WHERE id >= span.first + span.width * k / 301
                               ORDER BY id LIMIT 1) AS one
          WHERE readable(one))) AS rows)
SELECT matcher, (SELECT count(*) FROM sample) AS sampled,
       (SELECT count(*) FROM sample WHERE tsv @@ query) AS holding
  FROM words;

-- name: estimate_rows_memories
-- The planner's own estimate: to count a large theme takes longer than to search it.
EXPLAIN (FORMAT JSON) SELECT FROM memory_entries WHERE agent_identity = %(theme)s OR %(any_theme)s;

-- name: estimate_rows_turns
EXPLAIN (FORMAT JSON) SELECT FROM conversations WHERE agent_identity = %(theme)s OR %(any_theme)s;

-- name: lexical_search_memories
-- Rows come from the index for `match`, the rarer words of the question behind the theme's lexeme, and where that leaves
-- words out (`recent`), from the newest rows of the theme. Each word weighs by how rare it is in the theme (BM25's idf),
-- by the estimate in `holding` or else by the rows found; one that no row holds weighs `absent` of what it would if one
-- did, and all those together no more than eight words. Coverage is the share of the question's weight that a row holds, 0 to 1. Nothing but `@@` stands in `matching`, so that no other index can be preferred, and no LIMIT, which
-- would make the planner prefer to read the table; it is read only as far as the LIMIT of `hits` asks. Where the theme is
-- searched whole (`exact`) and is tiny, or three quarters of its newest rows hold some word, the index is asked for the
-- theme alone: to sort out there which rows hold none takes longer than to look at them.
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, absent, word::integer
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[], %(absent)s::float8[])
           WITH ORDINALITY AS given(matcher, holding, absent, word)),
newest_words AS MATERIALIZED (
    SELECT CASE WHEN %(rows)s::float8 > 150 THEN count(*) FILTER (WHERE tsv @@ (SELECT %(match)s::tsquery)) > 0.75 * count(*)
                ELSE %(exact)s::boolean END AS wide
      FROM (SELECT tsv FROM memory_entries WHERE agent_identity = %(theme)s AND %(exact)s::boolean AND %(rows)s::float8 > 150
             ORDER BY created_at DESC LIMIT 50) AS newest),
matching AS MATERIALIZED (
    SELECT id, agent_identity, tsv, target, metadata, updated_at FROM memory_entries
     WHERE tsv @@ CASE WHEN (SELECT wide FROM newest_words) THEN ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery
                       ELSE ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery END),
recent AS MATERIALIZED (
    SELECT id, tsv
      FROM (SELECT id, agent_identity, tsv, target, metadata, updated_at FROM memory_entries
             WHERE agent_identity = %(theme)s
               AND %(recent)s::boolean
             ORDER BY created_at DESC LIMIT 1000) AS newest
     WHERE (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND updated_at >= (SELECT %(since)s::timestamptz)
       AND updated_at < (SELECT %(until)s::timestamptz)
       AND readable(newest)
       AND (tsv @@ (SELECT %(match)s::tsquery)) IS NOT TRUE),
hits AS NOT MATERIALIZED (
    (SELECT id, tsv FROM matching
     WHERE agent_identity = %(theme)s
       AND (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND updated_at >= (SELECT %(since)s::timestamptz)
       AND updated_at < (SELECT %(until)s::timestamptz)
       AND readable(matching)
     LIMIT 10000)
    UNION ALL SELECT id, tsv FROM recent),
found AS MATERIALIZED (
    SELECT id, word FROM hits CROSS JOIN LATERAL (SELECT word FROM words WHERE hits.tsv @@ words.query OFFSET 0) AS held),
counted AS (
    SELECT word, count(*) AS n FROM found GROUP BY word),
weights AS MATERIALIZED (
    -- In millionths and whole, so that rows with the same words have the same sum whatever the order of adding.
    SELECT word, held,
           (1e6 * CASE WHEN held > 0 THEN 1 ELSE absent * least(1, 8 / sum(absent) FILTER (WHERE held = 0) OVER ()) END
                * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (greatest(held, 1) + 0.5)))::integer AS idf
      FROM (SELECT word, absent, coalesce(holding, n, 0) AS held FROM words LEFT JOIN counted USING (word)) AS known)
SELECT id, sum((SELECT array_agg(idf ORDER BY word) FROM weights)[word]) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage,
       ARRAY(SELECT word FROM weights WHERE held = 0) AS absent
  FROM found
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

-- name: lexical_search_memories_all
-- exempt: the explicit scope 'all', of what is readable.
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, absent, word::integer
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[], %(absent)s::float8[])
           WITH ORDINALITY AS given(matcher, holding, absent, word)),
matching AS MATERIALIZED (
    SELECT id, agent_identity, tsv, target, metadata, updated_at FROM memory_entries
     WHERE tsv @@ %(match)s::tsquery),
recent AS MATERIALIZED (
    SELECT id, tsv
      FROM (SELECT id, tsv, target, metadata, updated_at
              FROM (SELECT id, agent_identity, tsv, target, metadata, updated_at FROM memory_entries
                     WHERE %(recent)s::boolean
                     ORDER BY id DESC LIMIT 10000) AS last
             WHERE readable(last) LIMIT 1000) AS newest
     WHERE (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND updated_at >= (SELECT %(since)s::timestamptz)
       AND updated_at < (SELECT %(until)s::timestamptz)
       AND (tsv @@ (SELECT %(match)s::tsquery)) IS NOT TRUE),
hits AS NOT MATERIALIZED (
    (SELECT id, tsv FROM matching
     WHERE (%(target)s::text IS NULL OR target = %(target)s)
       AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
       AND updated_at >= (SELECT %(since)s::timestamptz)
       AND updated_at < (SELECT %(until)s::timestamptz)
       AND readable(matching)
     LIMIT 10000)
    UNION ALL SELECT id, tsv FROM recent),
found AS MATERIALIZED (
    SELECT id, word FROM hits CROSS JOIN LATERAL (SELECT word FROM words WHERE hits.tsv @@ words.query OFFSET 0) AS held),
counted AS (
    SELECT word, count(*) AS n FROM found GROUP BY word),
weights AS MATERIALIZED (
    -- In millionths and whole, so that rows with the same words have the same sum whatever the order of adding.
    SELECT word, held,
           (1e6 * CASE WHEN held > 0 THEN 1 ELSE absent * least(1, 8 / sum(absent) FILTER (WHERE held = 0) OVER ()) END
                * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (greatest(held, 1) + 0.5)))::integer AS idf
      FROM (SELECT word, absent, coalesce(holding, n, 0) AS held FROM words LEFT JOIN counted USING (word)) AS known)
SELECT id, sum((SELECT array_agg(idf ORDER BY word) FROM weights)[word]) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage,
       ARRAY(SELECT word FROM weights WHERE held = 0) AS absent
  FROM found
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

-- name: lexical_search_turns
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, absent, word::integer
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[], %(absent)s::float8[])
           WITH ORDINALITY AS given(matcher, holding, absent, word)),
newest_words AS MATERIALIZED (
    SELECT CASE WHEN %(rows)s::float8 > 150 THEN count(*) FILTER (WHERE tsv @@ (SELECT %(match)s::tsquery)) > 0.75 * count(*)
                ELSE %(exact)s::boolean END AS wide
      FROM (SELECT tsv FROM conversations WHERE agent_identity = %(theme)s AND %(exact)s::boolean AND %(rows)s::float8 > 150
             ORDER BY ts DESC LIMIT 50) AS newest),
matching AS MATERIALIZED (
    SELECT id, agent_identity, tsv, role, ts FROM conversations
     WHERE tsv @@ CASE WHEN (SELECT wide FROM newest_words) THEN ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery
                       ELSE ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery END),
recent AS MATERIALIZED (
    SELECT id, tsv
      FROM (SELECT id, agent_identity, tsv, role, ts, metadata FROM conversations
             WHERE agent_identity = %(theme)s
               AND ts >= (SELECT %(since)s::timestamptz)
               AND ts < (SELECT %(until)s::timestamptz)
               AND %(recent)s::boolean
             ORDER BY ts DESC LIMIT 1000) AS newest
     WHERE (%(role)s::text IS NULL OR role = %(role)s)
       AND readable(newest)
       AND (tsv @@ (SELECT %(match)s::tsquery)) IS NOT TRUE),
hits AS NOT MATERIALIZED (
    (SELECT id, tsv FROM matching
     WHERE agent_identity = %(theme)s
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= (SELECT %(since)s::timestamptz)
       AND ts < (SELECT %(until)s::timestamptz)
       AND CASE WHEN agent_identity = %(own)s::text THEN true
                ELSE EXISTS (SELECT FROM conversations AS said WHERE said.id = matching.id AND readable(said)) END
     LIMIT 10000)
    UNION ALL SELECT id, tsv FROM recent),
found AS MATERIALIZED (
    SELECT id, word FROM hits CROSS JOIN LATERAL (SELECT word FROM words WHERE hits.tsv @@ words.query OFFSET 0) AS held),
counted AS (
    SELECT word, count(*) AS n FROM found GROUP BY word),
weights AS MATERIALIZED (
    -- In millionths and whole, so that rows with the same words have the same sum whatever the order of adding.
    SELECT word, held,
           (1e6 * CASE WHEN held > 0 THEN 1 ELSE absent * least(1, 8 / sum(absent) FILTER (WHERE held = 0) OVER ()) END
                * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (greatest(held, 1) + 0.5)))::integer AS idf
      FROM (SELECT word, absent, coalesce(holding, n, 0) AS held FROM words LEFT JOIN counted USING (word)) AS known)
SELECT id, sum((SELECT array_agg(idf ORDER BY word) FROM weights)[word]) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage,
       ARRAY(SELECT word FROM weights WHERE held = 0) AS absent
  FROM found
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

-- name: lexical_search_turns_session
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, absent, word::integer
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[], %(absent)s::float8[])
           WITH ORDINALITY AS given(matcher, holding, absent, word)),
matching AS MATERIALIZED (
    SELECT id, agent_identity, tsv, session_id, role, ts FROM conversations
     WHERE tsv @@ (('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery)),
recent AS MATERIALIZED (
    SELECT id, tsv
      FROM (SELECT id, agent_identity, tsv, session_id, role, ts FROM conversations
             WHERE session_id = %(session_id)s
               AND agent_identity || '' = %(theme)s
               AND ts >= (SELECT %(since)s::timestamptz)
               AND ts < (SELECT %(until)s::timestamptz)
               AND %(recent)s::boolean
             ORDER BY ts DESC LIMIT 5000) AS newest
     WHERE (%(role)s::text IS NULL OR role = %(role)s)
       AND (tsv @@ (SELECT %(match)s::tsquery)) IS NOT TRUE),
hits AS NOT MATERIALIZED (
    (SELECT id, tsv FROM matching
     WHERE agent_identity = %(theme)s
       AND session_id = %(session_id)s
       AND (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= (SELECT %(since)s::timestamptz)
       AND ts < (SELECT %(until)s::timestamptz)
     LIMIT 10000)
    UNION ALL SELECT id, tsv FROM recent),
found AS MATERIALIZED (
    SELECT id, word FROM hits CROSS JOIN LATERAL (SELECT word FROM words WHERE hits.tsv @@ words.query OFFSET 0) AS held),
counted AS (
    SELECT word, count(*) AS n FROM found GROUP BY word),
weights AS MATERIALIZED (
    -- In millionths and whole, so that rows with the same words have the same sum whatever the order of adding.
    SELECT word, held,
           (1e6 * CASE WHEN held > 0 THEN 1 ELSE absent * least(1, 8 / sum(absent) FILTER (WHERE held = 0) OVER ()) END
                * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (greatest(held, 1) + 0.5)))::integer AS idf
      FROM (SELECT word, absent, coalesce(holding, n, 0) AS held FROM words LEFT JOIN counted USING (word)) AS known)
SELECT id, sum((SELECT array_agg(idf ORDER BY word) FROM weights)[word]) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage,
       ARRAY(SELECT word FROM weights WHERE held = 0) AS absent
  FROM found
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

-- name: lexical_search_turns_all
-- exempt: the explicit scope 'all', of what is readable.
WITH words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, absent, word::integer
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[], %(absent)s::float8[])
           WITH ORDINALITY AS given(matcher, holding, absent, word)),
matching AS MATERIALIZED (
    SELECT id, agent_identity, tsv, role, ts FROM conversations
     WHERE tsv @@ %(match)s::tsquery),
recent AS MATERIALIZED (
    SELECT id, tsv
      FROM (SELECT id, tsv, role, ts
              FROM (SELECT id, agent_identity, tsv, role, ts, metadata FROM conversations
                     WHERE %(recent)s::boolean
                     ORDER BY id DESC LIMIT 10000) AS last
             WHERE readable(last) LIMIT 1000) AS newest
     WHERE (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= (SELECT %(since)s::timestamptz)
       AND ts < (SELECT %(until)s::timestamptz)
       AND (tsv @@ (SELECT %(match)s::tsquery)) IS NOT TRUE),
hits AS NOT MATERIALIZED (
    (SELECT id, tsv FROM matching
     WHERE (%(role)s::text IS NULL OR role = %(role)s)
       AND ts >= (SELECT %(since)s::timestamptz)
       AND ts < (SELECT %(until)s::timestamptz)
       AND CASE WHEN agent_identity = %(own)s::text THEN true
                ELSE EXISTS (SELECT FROM conversations AS said WHERE said.id = matching.id AND readable(said)) END
     LIMIT 10000)
    UNION ALL SELECT id, tsv FROM recent),
found AS MATERIALIZED (
    SELECT id, word FROM hits CROSS JOIN LATERAL (SELECT word FROM words WHERE hits.tsv @@ words.query OFFSET 0) AS held),
counted AS (
    SELECT word, count(*) AS n FROM found GROUP BY word),
weights AS MATERIALIZED (
    -- In millionths and whole, so that rows with the same words have the same sum whatever the order of adding.
    SELECT word, held,
           (1e6 * CASE WHEN held > 0 THEN 1 ELSE absent * least(1, 8 / sum(absent) FILTER (WHERE held = 0) OVER ()) END
                * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (greatest(held, 1) + 0.5)))::integer AS idf
      FROM (SELECT word, absent, coalesce(holding, n, 0) AS held FROM words LEFT JOIN counted USING (word)) AS known)
SELECT id, sum((SELECT array_agg(idf ORDER BY word) FROM weights)[word]) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage,
       ARRAY(SELECT word FROM weights WHERE held = 0) AS absent
  FROM found
 GROUP BY id ORDER BY coverage DESC, id DESC LIMIT %(limit)s;

-- name: phrase_search_memories
-- The rows that hold a phrase of the question word for word, newest first. Proposed are those with all its words; tested
-- are at most 10,000 rows and 20 MB of text, the size of which is known without reading it, and of each row the first four
-- million characters.
WITH matching AS MATERIALIZED (
    SELECT id, agent_identity, content, target, metadata, updated_at FROM memory_entries
     WHERE tsv @@ CASE WHEN %(any_theme)s::boolean THEN %(match)s::tsquery
                       ELSE ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery END),
measured AS (
    SELECT id, content, sum(least(octet_length(content), 16000000)) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
      FROM (SELECT id, content FROM matching
             WHERE (agent_identity = %(theme)s OR %(any_theme)s::boolean)
               AND (%(target)s::text IS NULL OR target = %(target)s)
               AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
               AND updated_at >= (SELECT %(since)s::timestamptz)
               AND updated_at < (SELECT %(until)s::timestamptz)
               AND readable(matching)
             LIMIT 10000) AS passed)
SELECT id FROM measured
 WHERE bytes < 20000000
   AND position((SELECT hermes_folded(%(phrase)s)) IN hermes_folded(left(content, 4000000))) > 0
 ORDER BY id DESC LIMIT %(limit)s;

-- name: phrase_search_turns
WITH matching AS MATERIALIZED (
    SELECT id, agent_identity, content, session_id, role, ts FROM conversations
     WHERE tsv @@ CASE WHEN %(any_theme)s::boolean THEN %(match)s::tsquery
                       ELSE ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery END),
measured AS (
    SELECT id, content, sum(least(octet_length(content), 16000000)) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
      FROM (SELECT id, content FROM matching
             WHERE (agent_identity = %(theme)s OR %(any_theme)s::boolean)
               AND (%(role)s::text IS NULL OR role = %(role)s)
               AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
               AND ts >= (SELECT %(since)s::timestamptz)
               AND ts < (SELECT %(until)s::timestamptz)
               AND CASE WHEN agent_identity = %(own)s::text THEN true
                         ELSE EXISTS (SELECT FROM conversations AS said WHERE said.id = matching.id AND readable(said)) END
             LIMIT 10000) AS passed)
SELECT id FROM measured
 WHERE bytes < 20000000
   AND position((SELECT hermes_folded(%(phrase)s)) IN hermes_folded(left(content, 4000000))) > 0
 ORDER BY id DESC LIMIT %(limit)s;

-- name: near_words_memories
-- Words of the theme that look like a word of the question, most alike first; needs pg_trgm. `match` narrows the rows to
-- those with a word of the same beginning, and is null where the theme is small enough to do without.
WITH rows AS MATERIALIZED (
    SELECT id, agent_identity, tsv FROM memory_entries
     WHERE tsv @@ CASE WHEN %(any_theme)s::boolean THEN %(match)s::tsquery
                       WHEN %(match)s::text IS NULL THEN ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery
                       ELSE ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery END),
vocabulary AS MATERIALIZED (
    SELECT DISTINCT lexeme FROM (
        SELECT held.lexeme FROM (
          SELECT tsv FROM rows
           WHERE (agent_identity = %(theme)s OR %(any_theme)s::boolean)
             AND CASE WHEN agent_identity = %(own)s::text THEN true
                      ELSE EXISTS (SELECT FROM memory_entries AS said WHERE said.id = rows.id AND readable(said)) END
           LIMIT 2000) AS read
         CROSS JOIN LATERAL unnest(read.tsv) AS held
         LIMIT 100000) AS looked_at
     WHERE left(lexeme, 1) = ANY(%(initials)s::text[]))
SELECT word, lexeme
  FROM unnest(%(words)s::text[]) AS word
 CROSS JOIN LATERAL (
    SELECT lexeme FROM vocabulary
     WHERE similarity(lexeme, word) >= 0.3
     ORDER BY similarity(lexeme, word) DESC, lexeme LIMIT 10) AS near;

-- name: near_words_turns
WITH rows AS MATERIALIZED (
    SELECT id, agent_identity, tsv FROM conversations
     WHERE tsv @@ CASE WHEN %(any_theme)s::boolean THEN %(match)s::tsquery
                       WHEN %(match)s::text IS NULL THEN ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery
                       ELSE ('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery && %(match)s::tsquery END),
vocabulary AS MATERIALIZED (
    SELECT DISTINCT lexeme FROM (
        SELECT held.lexeme FROM (
          SELECT tsv FROM rows
           WHERE (agent_identity = %(theme)s OR %(any_theme)s::boolean)
             AND CASE WHEN agent_identity = %(own)s::text THEN true
                      ELSE EXISTS (SELECT FROM conversations AS said WHERE said.id = rows.id AND readable(said)) END
           LIMIT 2000) AS read
         CROSS JOIN LATERAL unnest(read.tsv) AS held
         LIMIT 100000) AS looked_at
     WHERE left(lexeme, 1) = ANY(%(initials)s::text[]))
SELECT word, lexeme
  FROM unnest(%(words)s::text[]) AS word
 CROSS JOIN LATERAL (
    SELECT lexeme FROM vocabulary
     WHERE similarity(lexeme, word) >= 0.3
     ORDER BY similarity(lexeme, word) DESC, lexeme LIMIT 10) AS near;

-- name: fetch_memories
-- One by one by their key, whatever a planner makes of the size of the table; see vector_search_memories. Of a long text the
-- part that is nearest counts, the first of them in a tie: by an aggregate, since a sort looks dear after `set_timeouts`.
SELECT own.id, agent_identity AS theme, target AS kind, metadata ->> 'session_id' AS session_id,
       CASE WHEN octet_length(own.content) <= 100000 THEN own.content
            ELSE substr(own.content, part.first + 1, 20000) END AS content,
       updated_at AS at, greatest(1 - own.distance, 1 - near.part[1]) AS similarity,
       CASE WHEN near.part[1] < own.distance THEN near.part[2]::integer ELSE 0 END AS nearest_char,
       part.first AS first_char, CASE WHEN octet_length(own.content) > 100000 THEN octet_length(own.content) ELSE 0 END AS size
  FROM unnest(%(ids)s::bigint[]) AS wanted
 CROSS JOIN LATERAL (SELECT id, agent_identity, target, metadata, content, updated_at,
                            embedding <=> %(vector)s::vector AS distance
                       FROM memory_entries AS m
                      WHERE m.id = wanted AND CASE WHEN agent_identity = %(theme)s THEN true ELSE %(any_theme)s END AND readable(m)
                     OFFSET 0) AS own
 CROSS JOIN LATERAL (SELECT min(ARRAY[k.embedding <=> %(vector)s::vector, k.first_char]) AS part
                       FROM memory_chunks AS k WHERE k.row_id = own.id) AS near
 -- Of a very long text, where what is shown of it begins: nobody waits until all of it was read. The size of a text is known
 -- without reading it. Words are looked for in its first 1,000,000 characters.
 CROSS JOIN LATERAL (
       SELECT CASE WHEN octet_length(own.content) <= 100000 THEN 0
                   WHEN near.part[1] < own.distance AND near.part[2] <= 4000000 THEN greatest(0, near.part[2]::integer - 1000)
                   ELSE greatest(0, coalesce((
                        SELECT nullif(strpos(whole.body, lower(word COLLATE "C")), 0)
                          FROM (SELECT lower(left(own.content, 1000000) COLLATE "C") AS body OFFSET 0) AS whole
                         CROSS JOIN unnest(%(words)s::text[]) AS word
                         WHERE strpos(whole.body, lower(word COLLATE "C")) > 0 LIMIT 1), 0) - 10000) END AS first) AS part;

-- name: fetch_turns
-- As fetch_memories; without its vector a turn is as near as its signature says.
SELECT own.id, agent_identity AS theme, role AS kind, session_id,
       CASE WHEN octet_length(own.content) <= 100000 THEN own.content
            ELSE substr(own.content, part.first + 1, 20000) END AS content,
       ts AS at, greatest(1 - own.distance, 1 - near.part[1]) AS similarity,
       CASE WHEN near.part[1] < own.distance THEN near.part[2]::integer ELSE 0 END AS nearest_char,
       part.first AS first_char, CASE WHEN octet_length(own.content) > 100000 THEN octet_length(own.content) ELSE 0 END AS size
  FROM unnest(%(ids)s::bigint[]) AS wanted
 CROSS JOIN LATERAL (
       SELECT id, agent_identity, role, session_id, content, ts,
              coalesce(embedding <=> %(vector)s::vector,
                       -- `greatest` of nothing and 0 is 0, which would be as near as can be.
                       CASE WHEN sig IS NOT NULL AND %(vector)s::vector IS NOT NULL THEN
                       greatest(0, 1 - (SELECT sig_offset FROM hermes_embedding) - (SELECT sig_slope FROM hermes_embedding)
                                     * cos(pi() * (sig <~> binary_quantize(%(vector)s::vector)) / length(sig))) END) AS distance
         FROM conversations AS c
        WHERE c.id = wanted AND CASE WHEN agent_identity = %(theme)s THEN true ELSE %(any_theme)s END AND readable(c)
       OFFSET 0) AS own
 CROSS JOIN LATERAL (
       SELECT min(ARRAY[coalesce(k.embedding <=> %(vector)s::vector,
                                 CASE WHEN %(vector)s::vector IS NOT NULL THEN
                                 greatest(0, 1 - (SELECT sig_offset FROM hermes_embedding) - (SELECT sig_slope FROM hermes_embedding)
                                               * cos(pi() * (k.sig <~> binary_quantize(%(vector)s::vector)) / length(k.sig))) END),
                        k.first_char]) AS part
         FROM conversation_chunks AS k WHERE k.row_id = own.id) AS near
 -- Of a very long text, where what is shown of it begins: nobody waits until all of it was read. The size of a text is known
 -- without reading it. Words are looked for in its first 1,000,000 characters.
 CROSS JOIN LATERAL (
       SELECT CASE WHEN octet_length(own.content) <= 100000 THEN 0
                   WHEN near.part[1] < own.distance AND near.part[2] <= 4000000 THEN greatest(0, near.part[2]::integer - 1000)
                   ELSE greatest(0, coalesce((
                        SELECT nullif(strpos(whole.body, lower(word COLLATE "C")), 0)
                          FROM (SELECT lower(left(own.content, 1000000) COLLATE "C") AS body OFFSET 0) AS whole
                         CROSS JOIN unnest(%(words)s::text[]) AS word
                         WHERE strpos(whole.body, lower(word COLLATE "C")) > 0 LIMIT 1), 0) - 10000) END AS first) AS part;

-- name: theme_holds
-- Whether a session finds anything in a theme that it has named.
SELECT EXISTS (SELECT FROM memory_entries AS m WHERE m.agent_identity = %(theme)s AND readable(m))
    OR EXISTS (SELECT FROM conversations AS c WHERE c.agent_identity = %(theme)s AND readable(c)) AS found;

-- name: theme_names
-- exempt: names for the operator, no stored text; of them a session is told those that it may read, see host/unknown_themes.py.
-- They are found one by one along an index.
WITH RECURSIVE said(theme) AS (
    (SELECT agent_identity FROM conversations ORDER BY agent_identity LIMIT 1)
    UNION ALL
    SELECT (SELECT agent_identity FROM conversations WHERE agent_identity > said.theme ORDER BY agent_identity LIMIT 1)
      FROM said WHERE theme IS NOT NULL),
noted(theme) AS (
    (SELECT agent_identity FROM memory_entries ORDER BY agent_identity LIMIT 1)
    UNION ALL
    SELECT (SELECT agent_identity FROM memory_entries WHERE agent_identity > noted.theme ORDER BY agent_identity LIMIT 1)
      FROM noted WHERE theme IS NOT NULL)
SELECT theme FROM said WHERE theme IS NOT NULL UNION SELECT theme FROM noted WHERE theme IS NOT NULL ORDER BY 1;

-- name: turns_before
-- The end of the session before this one, newest first. `|| ''`: see neighbours.
SELECT id, agent_identity AS theme, role AS kind, session_id,
       CASE WHEN octet_length(content) <= 100000 THEN content ELSE left(content, 20000) END AS content, ts AS at,
       NULL::float8 AS similarity
  FROM conversations
 WHERE session_id = coalesce(%(parent)s::text,
                             (SELECT session_id FROM conversations
                               WHERE agent_identity = %(theme)s ORDER BY ts DESC LIMIT 1))
   AND agent_identity || '' = %(theme)s
   AND NOT EXISTS (SELECT FROM conversations WHERE session_id = %(session_id)s AND agent_identity || '' = %(theme)s)
 ORDER BY ts DESC, id DESC LIMIT %(limit)s;
