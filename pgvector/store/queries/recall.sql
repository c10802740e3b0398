-- The statements of recall.

-- name: vector_search_memories
-- The codes of one theme come from its covering index, then the nearest are compared by their vectors. Pending rows have
-- no code.
WITH near_candidates(memory_entries; id; agent_identity = %(theme)s; %(depth)s)
nearest_memories();

-- name: vector_search_memories_filtered
-- The filter applies before the limit, so that rows of a rare target or session are not cut off.
WITH near_candidates(memory_entries; id; agent_identity = %(theme)s AND memory_passes() AND readable(memory_entries);
                     %(depth)s)
nearest_memories();

-- name: vector_search_memories_all
-- exempt: the explicit scope 'all', of what is readable. What the index does not tell of that is checked in the nearest
-- rows. `thin` says that this leaves so few that others may have been cut off, which the filtered statement finds.
WITH near_candidates(memory_entries; id; reachable(memory_entries); %(depth)s),
passed AS MATERIALIZED (
    SELECT candidates.id, embedding <=> %(vector)s AS distance
      FROM candidates CROSS JOIN LATERAL (
           SELECT embedding FROM memory_entries AS t WHERE same_row(t) AND readable(t) OFFSET 0) AS near)
SELECT id, 1 - distance AS similarity, is_thin() AS thin
  FROM passed ORDER BY distance + 0, id DESC LIMIT %(limit)s;

-- name: vector_search_memories_all_filtered
-- exempt: the explicit scope 'all', of what is readable.
WITH near_candidates(memory_entries; id; memory_passes_in_sight() AND readable(memory_entries); %(depth)s)
nearest_memories();

-- name: walk_vectors
-- exempt: touches no table. Settings for walking a graph of vectors. The planner uses the graph even if it takes the table
-- for small or the LIMIT for large, because of `set_timeouts`: any other plan would need a sort.
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true) AS iterative,
       set_config('hnsw.ef_search', %(breadth)s::text, true) AS breadth,
       set_config('hnsw.max_scan_tuples', %(most)s::text, true) AS most,
       set_config('hnsw.scan_mem_multiplier', '8', true) AS memory;

-- name: plan_for_values
-- exempt: touches no table. No single plan serves both a filter across all themes that one row passes and one that all rows
-- pass; and only a plan for one theme can use an index of that theme.
SELECT set_config('hermes_pgvector.plans', current_setting('plan_cache_mode'), true) AS before,
       set_config('plan_cache_mode', 'force_custom_plan', true) AS mode;

-- name: plan_as_before
-- exempt: touches no table. Restores the mode that `plan_for_values` replaced in this transaction.
SELECT set_config('plan_cache_mode', current_setting('hermes_pgvector.plans'), true) AS mode;

-- name: has_graph
-- exempt: reads the catalogue only. The column that has a graph, if any: an operator may have dropped it for a bulk load or
-- have chosen the one of whole vectors, or a build may have failed.
SELECT min(n.attname) AS found
  FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam
  JOIN pg_attribute AS n ON n.attrelid = i.indrelid AND n.attnum = i.indkey[0]
 WHERE i.indrelid = %(table)s::regclass AND i.indisvalid AND i.indpred IS NULL AND a.amname = 'hnsw'
   AND n.attname IN ('embedding', 'sig');

-- name: has_own_graph
-- exempt: reads the catalogue only. Whether an operator has built a graph of one theme, it is valid, and it has so many rows.
-- After `walk_vectors` and `plan_for_values` the statements of the theme read their codes from it, because any other plan for
-- that order and LIMIT would need a sort.
SELECT EXISTS (SELECT FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
                WHERE i.indexrelid = to_regclass(%(index)s) AND i.indisvalid AND c.reltuples >= %(rows)s) AS found;

-- name: vector_search_memories_walk_sig
-- exempt: the explicit scope 'all', of what is readable. After `walk_vectors`: the index returns rows nearly in
-- order, and continues until enough have passed the filter.
WITH walked(memory_entries; memory_passes_in_sight())
nearest_memories();

-- name: vector_search_memories_walk_embedding
-- exempt: the explicit scope 'all', as vector_search_memories_walk_sig.
walked_by_embedding(memory_entries; memory_passes_in_sight());

-- name: estimate_matches_memories
-- exempt: the explicit scope 'all'. As estimate_rows_memories, of the rows that pass a filter.
EXPLAIN (FORMAT JSON) SELECT FROM memory_entries WHERE memory_passes_in_sight();

-- name: vector_search_turns
-- As vector_search_memories.
WITH near_candidates(conversations; id; agent_identity = %(theme)s; %(depth)s)
with_turns_beside(nearest_turns());

-- name: vector_search_turns_filtered
WITH near_candidates(conversations; id; agent_identity = %(theme)s AND turn_passes() AND readable(conversations);
                     %(depth)s)
with_turns_beside(nearest_turns());

-- name: vector_search_turns_session
WITH near_candidates(conversations; id; agent_identity = %(theme)s AND session_id = %(session_id)s AND turn_passes();
                     %(depth)s)
with_turns_beside(nearest_turns());

-- name: vector_search_turns_all
-- exempt: the explicit scope 'all', as vector_search_memories_all.
WITH near_candidates(conversations; id; reachable(conversations); %(depth)s),
passed AS MATERIALIZED (
    SELECT candidates.id, distance
      FROM candidates CROSS JOIN LATERAL (
           SELECT turn_distance(t) AS distance
             FROM conversations AS t WHERE same_row(t) AND readable(t) OFFSET 0) AS near)
with_turns_beside(SELECT id, 1 - distance AS similarity, is_thin() AS thin
  FROM passed ORDER BY distance + 0, id DESC LIMIT %(limit)s);

-- name: vector_search_turns_all_filtered
-- exempt: the explicit scope 'all', of what is readable.
WITH near_candidates(conversations; id; turn_passes_in_sight() AND readable(conversations); %(depth)s)
with_turns_beside(nearest_turns());

-- name: vector_search_turns_walk_sig
-- exempt: the explicit scope 'all', as vector_search_memories_walk_sig.
WITH walked(conversations; turn_passes_in_sight())
nearest_turns();

-- name: vector_search_turns_walk_embedding
-- exempt: the explicit scope 'all', as vector_search_memories_walk_sig.
walked_by_embedding(conversations; turn_passes_in_sight());

-- name: vector_search_turns_cold
-- exempt: the explicit scope 'all', of what is readable. Turns that a graph of vectors lacks, because `compact` has dropped
-- their vectors. Their index has no themes, so the readable ones are selected from the nearest.
WITH candidates AS MATERIALIZED (
    SELECT id, (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 AS bits FROM conversations
     WHERE embedding IS NULL AND sig IS NOT NULL
       AND turn_passes()
     ORDER BY bits LIMIT %(depth)s)
SELECT candidates.id, 1 - distance AS similarity
  FROM candidates CROSS JOIN LATERAL (
       SELECT turn_distance(t) AS distance FROM conversations AS t
        WHERE t.id = candidates.id AND t.embedding IS NULL AND t.sig IS NOT NULL AND readable(t) OFFSET 0) AS near
 ORDER BY distance + 0 LIMIT %(limit)s;

-- name: estimate_matches_turns
-- exempt: the explicit scope 'all'. As estimate_rows_turns, of the rows that pass a filter.
EXPLAIN (FORMAT JSON) SELECT FROM conversations WHERE turn_passes_in_sight();

-- name: chunk_search_memories
-- As vector_search_memories, for the parts of long texts; a row counts by its nearest part. The filter is evaluated only if
-- there is one.
WITH near_candidates(memory_chunks; row_id, part; agent_identity = %(theme)s
       AND row_passes(%(restricted)s OR %(own)s::text IS NULL; memory_entries; memory_chunks; memory_passes()); %(depth)s)
SELECT row_id AS id, 1 - min(embedding <=> %(vector)s) AS similarity
  FROM candidates JOIN memory_chunks USING (row_id, part, agent_identity)
 GROUP BY row_id ORDER BY 2 DESC, row_id LIMIT %(limit)s;

-- name: chunk_search_memories_all
-- exempt: the explicit scope 'all', as vector_search_memories_all.
WITH near_candidates(memory_chunks; row_id, part; reachable(memory_chunks)
       AND row_passes(%(restricted)s; memory_entries; memory_chunks; memory_passes()); %(depth)s),
passed AS MATERIALIZED (
    SELECT row_id, k.embedding <=> %(vector)s AS distance
      FROM candidates JOIN memory_chunks AS k USING (row_id, part, agent_identity)
      JOIN memory_entries AS t ON t.id = row_id AND t.agent_identity = k.agent_identity AND readable(t))
SELECT row_id AS id, 1 - min(distance) AS similarity, is_thin() AS thin
  FROM passed
 GROUP BY row_id ORDER BY 2 DESC, row_id LIMIT %(limit)s;

-- name: chunk_search_turns
WITH near_candidates(conversation_chunks; row_id, part; agent_identity = %(theme)s
       AND row_passes(%(restricted)s OR %(own)s::text IS NULL; conversations; conversation_chunks; turn_passes_in_any_session()); %(depth)s)
with_turns_beside(SELECT row_id AS id, 1 - min(turn_distance(k)) AS similarity
  FROM candidates JOIN conversation_chunks AS k USING (row_id, part, agent_identity)
 GROUP BY row_id ORDER BY 2 DESC, row_id LIMIT %(limit)s);

-- name: chunk_search_turns_all
-- exempt: the explicit scope 'all', as vector_search_memories_all.
WITH near_candidates(conversation_chunks; row_id, part; reachable(conversation_chunks)
       AND row_passes(%(restricted)s; conversations; conversation_chunks; turn_passes_in_any_session()); %(depth)s),
passed AS MATERIALIZED (
    SELECT row_id, turn_distance(k) AS distance
      FROM candidates JOIN conversation_chunks AS k USING (row_id, part, agent_identity)
      JOIN conversations AS t ON t.id = row_id AND t.agent_identity = k.agent_identity AND readable(t))
with_turns_beside(SELECT row_id AS id, 1 - min(distance) AS similarity, is_thin() AS thin
  FROM passed
 GROUP BY row_id ORDER BY 2 DESC, row_id LIMIT %(limit)s);

-- name: neighbours
-- The turns right before and after each of some turns, in the same session of the same theme, nearest first. The CASE keeps
-- the planner from combining the session's index with one of the theme, which it would read whole for every turn.
SELECT c.id,
       turns_beside_it()
  FROM conversations AS c
 WHERE c.id = ANY(%(ids)s) AND CASE WHEN c.agent_identity = %(theme)s THEN true ELSE %(any_theme)s END AND readable(c);

-- name: surroundings
-- The turns right before and after each of some turns, as `neighbours` finds them and `fetch_turns` shows them.
SELECT c.id AS beside, near.*
  FROM conversations AS c
 CROSS JOIN LATERAL (
       (SELECT shown_beside(p) FROM conversations AS p WHERE earlier_than_it(p) LIMIT 1)
       UNION ALL
       (SELECT shown_beside(n) FROM conversations AS n WHERE later_than_it(n) LIMIT 1)) AS near
 WHERE c.id = ANY(%(ids)s) AND CASE WHEN c.agent_identity = %(theme)s THEN true ELSE %(any_theme)s END AND readable(c);

-- name: told_memories
-- Which of the given rows were told in one of the periods (2), or around one of them (1).
SELECT id, told FROM (SELECT id, told_in_time(updated_at) AS told FROM memory_entries
                       WHERE id = ANY(%(ids)s) AND in_theme() AND readable(memory_entries)) AS found WHERE told > 0;

-- name: told_turns
SELECT id, told FROM (SELECT id, told_in_time(ts) AS told FROM conversations
                       WHERE id = ANY(%(ids)s) AND in_theme() AND readable(conversations)
                         AND (%(told_in)s::text IS NULL OR session_id = %(told_in)s)) AS found WHERE told > 0;

-- name: beginnings
-- The turns with which sessions began in some periods: the first of each, then the second ones, those of the period that is
-- named first before others.
SELECT id FROM (SELECT id, ts, number, row_number() OVER (PARTITION BY session_id ORDER BY ts, id) AS place
                  FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) WITH ORDINALITY AS period(start, stop, number)
                 CROSS JOIN LATERAL (SELECT id, ts, session_id FROM conversations
                                      WHERE agent_identity = %(theme)s AND ts >= start AND ts < stop
                                        AND (%(told_in)s::text IS NULL OR session_id = %(told_in)s)
                                        AND turn_passes_in_any_session() AND readable(conversations)
                                      ORDER BY ts DESC LIMIT %(most)s) AS said) AS begun
 ORDER BY place, number, ts, id LIMIT %(limit)s;

-- name: latest_memories
-- The memories of some periods, newest first, among the last ones that were first said before the end of one: there is an
-- index of when a memory was first said, and none of when it was changed.
SELECT id FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS period(start, stop)
 CROSS JOIN LATERAL (SELECT id, updated_at
                       FROM (SELECT id, agent_identity, target, metadata, updated_at FROM memory_entries
                              WHERE agent_identity = %(theme)s AND created_at < stop
                              ORDER BY created_at DESC LIMIT %(most)s) AS newest
                      WHERE updated_at >= start AND updated_at < stop AND memory_passes()
                        AND not_hidden(newest; hidden.agent_identity = %(theme)s) AND readable(newest)) AS told
 ORDER BY updated_at DESC, id DESC LIMIT %(limit)s;

-- name: session_span
-- The theme's first or last session and from when to when it went on, or the end of the last one: its last turns. Sessions
-- that ask do not count. Of a session that goes on for ever, as a chat's, it is a week.
WITH edge AS (
    (SELECT session_id, ts FROM conversations AS c
      WHERE agent_identity = %(theme)s AND %(which)s <> 'first' AND session_id <> ALL (%(besides)s::text[]) AND readable(c)
      ORDER BY ts DESC LIMIT 1)
    UNION ALL
    (SELECT session_id, ts FROM conversations AS c
      WHERE agent_identity = %(theme)s AND %(which)s = 'first' AND session_id <> ALL (%(besides)s::text[]) AND readable(c)
      ORDER BY ts LIMIT 1))
SELECT edge.session_id AS session,
       CASE %(which)s
           WHEN 'first' THEN edge.ts
           WHEN 'end' THEN (SELECT min(ts) FROM (SELECT ts FROM conversations AS c WHERE of_session()
                                                  ORDER BY ts DESC LIMIT %(turns)s) AS said)
           ELSE (SELECT ts FROM conversations AS c WHERE of_session() AND ts >= edge.ts - interval '7 days'
                  ORDER BY ts LIMIT 1) END AS start,
       CASE %(which)s
           WHEN 'first' THEN (SELECT ts FROM conversations AS c WHERE of_session() AND ts <= edge.ts + interval '7 days'
                               ORDER BY ts DESC LIMIT 1)
           ELSE edge.ts END + interval '1 microsecond' AS stop
  FROM edge;

-- name: held_turns
-- The newest turns of each of some sessions, said in the period given with it.
SELECT id FROM unnest(%(sessions)s::text[], %(from_s)s::float8[], %(to_s)s::float8[]) AS held (session, start, stop)
 CROSS JOIN LATERAL (SELECT id FROM conversations
                      WHERE session_id = session AND ts BETWEEN to_timestamp(start) AND to_timestamp(stop)
                        AND in_theme() AND readable(conversations)
                      ORDER BY ts DESC, id DESC LIMIT %(most)s) AS said;

-- name: read_question
-- exempt: touches no table. The words of each text as the index has them. They are not sorted here: tsvectors are.
SELECT number, tsvector_to_array(hermes_lexemes(body, language)) AS terms,
       to_regprocedure('similarity(text,text)') IS NOT NULL AS has_trigrams
  FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS given(body, number)
 CROSS JOIN unnest(%(languages)s::text[]) AS language;

-- name: count_some_memories
-- How many rows a theme has, counted up to 5,001, beyond which the number does not matter; and whether any row is so long that
-- its parts have to be searched.
counted_in_theme(memory_entries; memory_chunks; created_at);

-- name: count_some_memories_all
-- exempt: the explicit scope 'all'.
counted_in_all(memory_entries; memory_chunks);

-- name: count_some_turns
counted_in_theme(conversations; conversation_chunks; ts);

-- name: count_some_turns_all
-- exempt: the explicit scope 'all'.
counted_in_all(conversations; conversation_chunks);

-- name: query_terms_memories
-- In how many rows of a sample each word of a question occurs; up to 5,000 rows are searched exactly and need no sample.
WITH counted_words(),
sample AS MATERIALIZED (
    SELECT tsv FROM memory_entries WHERE agent_identity = %(theme)s AND readable(memory_entries)
     ORDER BY created_at DESC LIMIT 1000)
in_sample();

-- name: query_terms_memories_all
-- exempt: the explicit scope 'all', of what is readable.
WITH counted_words(),
sample AS MATERIALIZED (
    SELECT tsv FROM (SELECT agent_identity, tsv, metadata FROM memory_entries ORDER BY id DESC LIMIT 10000) AS last
     WHERE readable(last) LIMIT 1000)
in_sample();

-- name: query_terms_turns
-- As query_terms_memories; a part of the sample is spread over the theme's whole time, because topics change.
WITH counted_words(),
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
in_sample();

-- name: query_terms_turns_all
-- exempt: the explicit scope 'all', of what is readable.
WITH counted_words(),
span AS (
    SELECT min(id) AS first, max(id) - min(id) AS width FROM conversations),
sample AS MATERIALIZED (
    SELECT DISTINCT ON (id) id, tsv FROM (
        (SELECT id, tsv FROM (SELECT id, agent_identity, tsv, metadata FROM conversations ORDER BY id DESC LIMIT 10000) AS last
          WHERE readable(last) LIMIT 700)
        UNION ALL
        (SELECT one.id, one.tsv
           FROM span CROSS JOIN generate_series(1, points()) AS k
          CROSS JOIN LATERAL (SELECT id, agent_identity, tsv, metadata FROM conversations
                               WHERE id >= span.first + span.width * k / (points() + 1)
                               ORDER BY id LIMIT 1) AS one
          WHERE readable(one))) AS rows)
in_sample();

-- name: estimate_rows_memories
-- The planner's own estimate: counting a large theme takes longer than searching it.
expected_rows(memory_entries);

-- name: estimate_rows_turns
expected_rows(conversations);

-- name: lexical_search_memories
-- Rows come from the index for `match`, the rarer words of the question combined with the theme's lexeme, and, if that
-- leaves words out (`recent`), from the newest rows of the theme. Each word is weighted by its rarity in the theme (BM25's
-- idf), from the estimate in `holding` or else from the rows found. A word that no row holds gets the share `absent` of
-- the weight it would have if one row did, and all such words together no more than eight. Coverage is the share of the
-- question's weight that a row holds, 0 to 1; the longer the row, the less of it counts for the order. `matching` has no
-- condition but `@@`, so that no other index can be preferred, and no LIMIT, which would make the planner prefer to read
-- the table; it is read only as far as the LIMIT of `hits` asks. If the theme is searched whole (`exact`) and is tiny, or
-- three quarters of its newest rows hold some word, the index is searched for the theme alone: to exclude the rows without
-- any word there takes longer than to test them.
WITH given_words(),
newest_words_in(memory_entries; created_at),
matching memories_with(id, agent_identity, tsv, target, metadata, updated_at; %(theme)s;
         match_unless_wide()),
recent AS MATERIALIZED (
    SELECT id, tsv
      FROM (SELECT id, agent_identity, tsv, target, metadata, updated_at FROM memory_entries
             WHERE agent_identity = %(theme)s
               AND %(recent)s::boolean
             ORDER BY created_at DESC LIMIT 1000) AS newest
     WHERE memory_passes() AND not_hidden(newest; hidden.agent_identity = %(theme)s) AND readable(newest)
       AND (tsv @@ (SELECT %(match)s::tsquery)) IS NOT TRUE),
by_coverage(agent_identity = %(theme)s
            AND memory_passes() AND not_hidden(matching; hidden.agent_identity = %(theme)s) AND readable(matching);
            (SELECT pivot FROM newest_words));

-- name: lexical_search_memories_all
-- exempt: the explicit scope 'all', of what is readable.
WITH given_words(),
matching memories_with(id, agent_identity, tsv, target, metadata, updated_at; NULL; %(match)s::tsquery),
recent AS MATERIALIZED (
    SELECT id, tsv
      FROM (SELECT id, tsv, target, metadata, updated_at
              FROM (SELECT id, agent_identity, tsv, target, metadata, updated_at FROM memory_entries
                     WHERE %(recent)s::boolean
                     ORDER BY id DESC LIMIT 10000) AS last
             WHERE readable(last) LIMIT 1000) AS newest
     WHERE memory_passes() AND not_hidden(newest; true)
       AND (tsv @@ (SELECT %(match)s::tsquery)) IS NOT TRUE),
by_coverage(memory_passes() AND not_hidden(matching; true) AND readable(matching);
            %(pivot)s::float8);

-- name: lexical_search_turns
WITH given_words(),
newest_words_in(conversations; ts),
matching turns_with(id, agent_identity, tsv, role, ts; %(theme)s;
         match_unless_wide()),
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
by_coverage(agent_identity = %(theme)s
            AND turn_passes() AND readable_turn(matching);
            (SELECT pivot FROM newest_words));

-- name: lexical_search_turns_session
WITH given_words(),
matching turns_with(id, agent_identity, tsv, session_id, role, ts; %(theme)s;
         (theme_word() && %(match)s::tsquery)),
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
by_coverage(agent_identity = %(theme)s
            AND session_id = %(session_id)s
            AND turn_passes();
            %(pivot)s::float8);

-- name: lexical_search_turns_all
-- exempt: the explicit scope 'all', of what is readable.
WITH given_words(),
matching turns_with(id, agent_identity, tsv, role, ts; NULL; %(match)s::tsquery),
recent AS MATERIALIZED (
    SELECT id, tsv
      FROM (SELECT id, tsv, role, ts
              FROM (SELECT id, agent_identity, tsv, role, ts, metadata FROM conversations
                     WHERE %(recent)s::boolean
                     ORDER BY id DESC LIMIT 10000) AS last
             WHERE readable(last) LIMIT 1000) AS newest
     WHERE turn_passes()
       AND (tsv @@ (SELECT %(match)s::tsquery)) IS NOT TRUE),
by_coverage(turn_passes() AND readable_turn(matching);
            %(pivot)s::float8);

-- name: phrase_search_memories
-- The rows that hold a phrase of the question verbatim, newest first. Candidates are the rows with all its words. At most
-- 10,000 rows and 20 MB of text are tested, and of each row the first four million characters; the size of a text is known
-- without reading it.
WITH matching memories_with(id, agent_identity, content, target, metadata, updated_at; theme_unless_any();
         match_in_scope()),
holding_phrase(memory_passes()
                 AND not_hidden(matching; (hidden.agent_identity = %(theme)s OR %(any_theme)s::boolean)) AND readable(matching));

-- name: phrase_search_turns
WITH matching turns_with(id, agent_identity, content, session_id, role, ts; theme_unless_any();
         match_in_scope()),
holding_phrase(turn_passes_in_any_session() AND readable_turn(matching));

-- name: near_words_memories
-- Words of the theme that resemble a word of the question, most similar first; needs pg_trgm. `match` limits the rows to
-- those with a word that begins alike, and is null if the theme is small enough to do without.
WITH rows memories_with(id, agent_identity, tsv; theme_unless_any();
         match_or_theme()),
likest_words(memory_entries);

-- name: near_words_turns
WITH rows turns_with(id, agent_identity, tsv; theme_unless_any();
         match_or_theme()),
likest_words(conversations);

-- name: fetch_memories
-- Rows are looked up one by one by key, whatever size of the table a planner assumes; see the fragment nearest_memories. Of a
-- long text the nearest part counts, the first in a tie, found by an aggregate: a sort looks expensive after `set_timeouts`.
SELECT own.id, agent_identity AS theme, target AS kind, metadata ->> 'session_id' AS session_id,
       shown_text(), updated_at AS at, shown_place(), said_of(own)
  FROM unnest(%(ids)s::bigint[]) AS wanted
 CROSS JOIN LATERAL (SELECT id, agent_identity, target, metadata, content, created_at, updated_at,
                            said_columns(), embedding <=> %(vector)s::vector AS distance
                       FROM memory_entries AS m
                      WHERE m.id = wanted AND in_theme() AND readable(m) AND is_current(m)
                     OFFSET 0) AS own
 CROSS JOIN LATERAL (SELECT min(ARRAY[k.embedding <=> %(vector)s::vector, k.first_char]) AS part
                       FROM memory_chunks AS k WHERE k.row_id = own.id) AS near
 CROSS JOIN LATERAL (SELECT first_shown() AS first) AS part;

-- name: fetch_turns
-- As fetch_memories; the similarity of a turn without its vector is estimated by its code.
SELECT own.id, agent_identity AS theme, role AS kind, session_id,
       shown_text(), ts AS at, shown_place()
  FROM unnest(%(ids)s::bigint[]) AS wanted
 CROSS JOIN LATERAL (
       SELECT id, agent_identity, role, session_id, content, ts,
              turn_distance(c) AS distance
         FROM conversations AS c
        WHERE c.id = wanted AND in_theme() AND readable(c)
       OFFSET 0) AS own
 CROSS JOIN LATERAL (
       SELECT min(ARRAY[turn_distance(k), k.first_char]) AS part
         FROM conversation_chunks AS k WHERE k.row_id = own.id) AS near
 CROSS JOIN LATERAL (SELECT first_shown() AS first) AS part;

-- name: theme_holds
-- Whether a session can read anything in a theme that it has named.
SELECT EXISTS (SELECT FROM memory_entries AS m WHERE m.agent_identity = %(theme)s AND readable(m))
    OR EXISTS (SELECT FROM conversations AS c WHERE c.agent_identity = %(theme)s AND readable(c)) AS found;

-- name: theme_names
-- exempt: names for the operator, no stored text; a session is shown only those it may read, see host/tool_scopes.py.
-- They are found one after the other, each by one lookup in an index.
WITH RECURSIVE said(theme) AS (walked_themes(conversations; said)),
noted(theme) AS (walked_themes(memory_entries; noted))
SELECT theme FROM said WHERE theme IS NOT NULL UNION SELECT theme FROM noted WHERE theme IS NOT NULL ORDER BY 1;

-- name: theme_names_spread
-- exempt: as theme_names, where the tables are distributed over machines, each of which reads its own.
SELECT agent_identity AS theme FROM conversations UNION SELECT agent_identity FROM memory_entries ORDER BY 1;

-- name: readable_themes
-- exempt: names of themes, of what is readable, where each theme is asked by itself.
SELECT theme FROM (SELECT agent_identity AS theme FROM conversations AS c WHERE reachable(c)
                   UNION SELECT agent_identity FROM memory_entries AS m WHERE reachable(m)) AS known LIMIT %(most)s;

-- name: themes_holding_turns
-- exempt: names of the themes that the given rows belong to, whose text is then read in each.
SELECT DISTINCT agent_identity AS theme FROM conversations AS c WHERE id = ANY(%(ids)s::bigint[]) AND reachable(c);

-- name: themes_holding_memories
-- exempt: as themes_holding_turns.
SELECT DISTINCT agent_identity AS theme FROM memory_entries AS m WHERE id = ANY(%(ids)s::bigint[]) AND reachable(m);

-- name: hot_facts
-- The facts of a theme that hold now and may appear in its hot block, and when the scope of each was last written about. If a
-- theme has none, this is one lookup in an index.
WITH holding AS MATERIALIZED (
    SELECT id, content, updated_at, kind, subject, scope, pinned
      FROM memory_entries
     WHERE agent_identity = %(theme)s AND (state IS NOT NULL OR pinned)
       AND coalesce(state, 'active') = 'active' AND (expires_at IS NULL OR expires_at > now())
       AND (pinned OR kind IN ('constraint', 'question', 'decision', 'value'))
     ORDER BY kind = 'constraint' DESC NULLS LAST, pinned IS TRUE DESC, updated_at DESC, id DESC LIMIT %(limit)s),
written AS MATERIALIZED (
    SELECT lower(scope) AS scope, max(updated_at) AS at
      FROM memory_entries
     WHERE agent_identity = %(theme)s AND (state IS NOT NULL OR pinned)
       AND coalesce(state, 'active') = 'active' AND (expires_at IS NULL OR expires_at > now())
       AND lower(scope) IN (SELECT lower(scope) FROM holding)
     GROUP BY 1)
SELECT id, left(content, 2000) AS content, updated_at, coalesce(kind, '') AS kind, coalesce(subject, '') AS subject,
       coalesce(holding.scope, '') AS scope, pinned IS TRUE AS pinned, coalesce(written.at, updated_at) AS scope_at
  FROM holding LEFT JOIN written ON written.scope = lower(holding.scope)
 ORDER BY kind = 'constraint' DESC NULLS LAST, pinned IS TRUE DESC, updated_at DESC, id DESC;

-- name: turns_naming
-- The newest turns of a theme, and which of `scopes` each of them names, by the words in the text index.
WITH asked AS MATERIALIZED (
    SELECT scope, (SELECT string_agg('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''', ' & ')::tsquery
                     FROM unnest(hermes_lexemes(scope, %(language)s))) AS words
      FROM unnest(%(scopes)s::text[]) AS scope),
newest AS MATERIALIZED (
    SELECT ts, tsv FROM conversations WHERE agent_identity = %(theme)s ORDER BY ts DESC LIMIT %(limit)s)
SELECT ts AS at, ARRAY(SELECT scope FROM asked WHERE newest.tsv @@ words) AS named FROM newest;

-- name: procedures
-- The newest procedures and reflections of a theme that say when they apply, with the words of that situation.
WITH own AS (
    SELECT id, agent_identity, target, metadata, content, created_at, updated_at, text_language, said_columns()
      FROM memory_entries AS m
     WHERE agent_identity = %(theme)s AND applies_when IS NOT NULL
       AND kind IN ('procedure', 'reflection') AND is_current(m) AND readable(m)
     ORDER BY updated_at DESC, id DESC LIMIT %(limit)s)
SELECT own.id, agent_identity AS theme, target AS kind, metadata ->> 'session_id' AS session_id,
       beginning(own), updated_at AS at,
       NULL::float8 AS similarity, 0 AS nearest_char, 0 AS first_char, 0 AS size, said_of(own),
       tsvector_to_array(hermes_lexemes(applies_when, text_language)) AS terms
  FROM own ORDER BY updated_at DESC, id DESC;

-- name: turns_before
-- The last turns of the sessions before this one: the nearest session first, and its newest turn first. `|| ''` has the reason
-- given at neighbours. The theme's timeline is walked back to each session that was not met before, as in list_sessions.
WITH RECURSIVE before(session_id, ts, met, number) AS (
    (SELECT coalesce(%(parent)s::text, last.session_id),
            CASE WHEN %(parent)s::text IS NULL THEN last.ts ELSE 'infinity' END,
            ARRAY[coalesce(%(parent)s::text, last.session_id), %(session_id)s::text], 1
       FROM (SELECT 1) AS always LEFT JOIN LATERAL (
            SELECT session_id, ts FROM conversations WHERE agent_identity = %(theme)s ORDER BY ts DESC LIMIT 1) AS last ON true)
    UNION ALL
    SELECT earlier.session_id, earlier.ts, before.met || earlier.session_id, before.number + 1
      FROM before CROSS JOIN LATERAL (
        SELECT c.session_id, c.ts FROM conversations AS c
         WHERE c.agent_identity = %(theme)s AND c.ts <= before.ts AND c.session_id <> ALL (before.met)
         ORDER BY c.ts DESC LIMIT 1) AS earlier
     WHERE before.number < %(sessions)s)
SELECT said.*
  FROM before CROSS JOIN LATERAL (
       SELECT id, agent_identity AS theme, role AS kind, session_id,
              beginning(c), ts AS at,
              NULL::float8 AS similarity
         FROM conversations AS c
        WHERE c.session_id = before.session_id AND c.agent_identity || '' = %(theme)s
        ORDER BY c.ts DESC, c.id DESC LIMIT %(limit)s) AS said
 WHERE NOT EXISTS (SELECT FROM conversations WHERE session_id = %(session_id)s AND agent_identity || '' = %(theme)s)
 ORDER BY before.number, said.at DESC, said.id DESC;
