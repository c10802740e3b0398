-- Fragments that statements share, so that each rule is written once. `readable(t)` in a statement is replaced by the fragment
-- of that name, with `t` in place of {t}; several arguments are separated by semicolons. A variant under `own themes` is used
-- instead for a role that row-level security confines: a policy would keep the index from being used, so the functions of
-- row_security.sql search it for the role.

-- fragment: readable(t)
-- Whether a session may read the row: one of its own theme, one that was not said in a chat of a messaging platform, or one
-- from a chat that is shared. See domain/theme_access.py.
(CASE WHEN {t}.agent_identity = %(own)s::text THEN true
     WHEN left({t}.agent_identity, 1) = '@' OR coalesce({t}.metadata ->> 'platform', '') <> ALL (
          '{"",acp,api_server,background,cli,cron,desktop,flush,local,subagent,tui}'::text[])
     THEN CASE WHEN left({t}.agent_identity, 1) = '@' THEN {t}.agent_identity
               ELSE concat('@', {t}.metadata ->> 'platform', '/', coalesce({t}.metadata ->> 'profile', 'default'), '/') END
          || CASE WHEN {t}.metadata ->> 'chat_type' IN ('channel', 'forum', 'group', 'room', 'supergroup', 'thread')
                  THEN ' group' ELSE ' direct' END LIKE ANY (%(shared)s::text[])
     ELSE true END)

-- fragment: reachable(t)
-- Whether a session may read some row of this theme, as far as an index or a part tells without the row.
(CASE WHEN {t}.agent_identity = %(own)s::text THEN true
     WHEN left({t}.agent_identity, 1) = '@' THEN {t}.agent_identity || ' group' LIKE ANY (%(shared)s::text[])
     ELSE true END)

-- fragment: walked_themes(table; found)
-- The query of the recursive CTE `found`: the themes of a table, each by one lookup in an index; at the end is a NULL.
(SELECT agent_identity FROM {table} ORDER BY agent_identity LIMIT 1)
UNION ALL
SELECT (SELECT agent_identity FROM {table} WHERE agent_identity > {found}.theme ORDER BY agent_identity LIMIT 1)
  FROM {found} WHERE {found}.theme IS NOT NULL

-- fragment: last_turns()
-- The last turn of each theme, from the whole table, which each machine reads by itself where it is spread.
(SELECT DISTINCT ON (agent_identity) agent_identity AS theme, metadata FROM conversations
         ORDER BY agent_identity, ts DESC)

-- fragment: retention_standing(r)
-- How far the retention of a theme is, from its row of hermes_retention.
{r}.policy,
       coalesce({r}.held_until BETWEEN now() AND now() + make_interval(secs => %(lease_s)s) AND {r}.held_by <> %(me)s::uuid, false) AS held,
       coalesce({r}.announced_at <= now() - make_interval(secs => %(grace_s)s), false) AS ripe,
       coalesce({r}.ended_at > now() - make_interval(secs => %(every_s)s) AND {r}.ended_at >= {r}.begun_at, false) AS recent,
       -- Before Postgres 17 nothing can be subtracted from infinity, and the statement would fail for all themes.
       CASE WHEN isfinite(greatest({r}.announced_at, {r}.begun_at, {r}.ended_at))
            THEN extract(epoch FROM now() - greatest({r}.announced_at, {r}.begun_at, {r}.ended_at)) END::float8 AS stood_s

-- fragment: memories_with(columns; theme; words)
-- The rows that the text index finds for some words.
AS MATERIALIZED (
    SELECT {columns} FROM memory_entries WHERE tsv @@ {words})

-- own themes: memories_with(columns; theme; words)
AS (
    SELECT {columns} FROM hermes_memories_with({theme}, {words}, current_user))

-- fragment: turns_with(columns; theme; words)
AS MATERIALIZED (
    SELECT {columns} FROM conversations WHERE tsv @@ {words})

-- own themes: turns_with(columns; theme; words)
AS (
    SELECT {columns} FROM hermes_turns_with({theme}, {words}, current_user))

-- fragment: expected_rows(table)
-- How many rows a theme has, by the planner's estimate.
EXPLAIN (FORMAT JSON) SELECT FROM {table} WHERE agent_identity = %(theme)s OR %(any_theme)s

-- own themes: expected_rows(table)
SELECT hermes_expected_rows('{table}', theme_unless_any(), current_user)

-- fragment: begins_alike(row; wanted)
-- Whether two texts are probably the same, by the head of the digest, which is indexed.
substr(hermes_digest({row}.content), 1, 8) = substr({wanted}.digest, 1, 8)

-- own themes: begins_alike(row; wanted)
{row}.id = ANY (ARRAY(SELECT hermes_turns_like({wanted}.digest, current_user)))

-- fragment: points()
-- How many rows of a sample are spread over a table. For a confined role there are fewer: from each point the index is walked
-- to the next row of one of its own themes, which may be far.
300

-- own themes: points()
40

-- fragment: near_candidates(table; columns; rows; depth)
-- The rows nearest by code and, of those without a code, the rows nearest by signature, which is less precise, so that more are
-- taken. Either set may be empty, usually the second: rows stored by a version without codes. The planner reads the rows of
-- one theme from their covering index.
coded AS MATERIALIZED (
    SELECT {columns}, agent_identity FROM {table}
     WHERE {rows} AND code IS NOT NULL
     ORDER BY code <~> (SELECT hermes_code(%(vector)s)) LIMIT {depth}),
signed AS MATERIALIZED (
    SELECT {columns}, agent_identity FROM {table}
     WHERE {rows} AND code IS NULL AND sig IS NOT NULL
     ORDER BY (sig <~> (SELECT binary_quantize(%(vector)s))) + 0 LIMIT %(signed)s),
candidates AS MATERIALIZED (
    SELECT {columns}, agent_identity FROM coded UNION ALL SELECT {columns}, agent_identity FROM signed)

-- fragment: walked(table; passes)
-- The rows from the graph of signatures, sorted by code before vectors are read.
walked AS MATERIALIZED (
    SELECT id, agent_identity,
           coalesce(code <~> (SELECT hermes_code(%(vector)s)), 2.6 * (sig <~> binary_quantize(%(vector)s))) AS bits
      FROM {table}
     WHERE {passes} AND readable({table})
     ORDER BY sig <~> binary_quantize(%(vector)s) LIMIT %(walked)s),
candidates AS MATERIALIZED (
    SELECT id, agent_identity FROM walked ORDER BY bits LIMIT %(depth)s)

-- fragment: walked_by_embedding(table; passes)
WITH candidates AS MATERIALIZED (
    SELECT id, embedding <=> %(vector)s AS distance FROM {table}
     WHERE {passes} AND readable({table})
     ORDER BY embedding <=> %(vector)s LIMIT %(depth)s)
SELECT id, 1 - distance AS similarity FROM candidates ORDER BY distance + 0 LIMIT %(limit)s

-- fragment: told_nearness(t)
-- The similarity of a row by its code, or by its signature if it has no code: a sign tells as much as 2.6 bits of a code.
cos(pi() * coalesce(({t}.code <~> (SELECT hermes_code(%(vector)s::vector))) / 2.6,
                    {t}.sig <~> (SELECT binary_quantize(%(vector)s::vector))) / length({t}.sig))

-- fragment: turn_distance(t)
-- If `compact` has dropped the vector of an old turn, the distance is estimated, on the scale that `compact` has measured:
-- with real models, angles estimated like this are far too wide. NULL without a vector.
coalesce({t}.embedding <=> %(vector)s::vector,
         -- `greatest` of NULL and 0 is 0, the smallest possible distance.
         CASE WHEN {t}.sig IS NOT NULL AND %(vector)s::vector IS NOT NULL THEN
              greatest(0, 1 - (SELECT sig_offset FROM hermes_embedding)
                            - (SELECT sig_slope FROM hermes_embedding) * told_nearness({t})) END)

-- fragment: is_current(t)
-- Whether a memory is recalled: it was not superseded or archived, and it has not expired.
({t}.state IS NULL OR {t}.state IN ('active', 'closed')) AND ({t}.expires_at IS NULL OR {t}.expires_at > now())

-- fragment: not_hidden(rows; wanted)
-- Likewise, but for the expiry, for rows of the text index, which does not hold states.
{rows}.id NOT IN (SELECT hidden.id FROM memory_entries AS hidden
                   WHERE {wanted} AND hidden.state IN ('superseded', 'archived'))

-- fragment: said_columns()
-- What a memory says of itself besides its text. See domain/facts.py.
kind, subject, scope, state, expires_at, confidence, sources, replaces, applies_when, pinned

-- fragment: said_values()
%(kind)s, %(subject)s, %(scope)s, %(state)s, %(expires_at)s, %(confidence)s, %(sources)s, NULL, %(applies_when)s, %(pinned)s

-- fragment: said_of(own)
-- What a memory says of itself besides its text, and the memory it replaced; NULL for nearly all. One that was there before
-- that memory, and was said once more, replaced it only then.
CASE WHEN {own}.state IS NOT NULL OR {own}.replaces IS NOT NULL OR {own}.kind IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object(
            'kind', {own}.kind, 'subject', {own}.subject, 'scope', {own}.scope, 'state', nullif({own}.state, 'active'),
            'when', {own}.applies_when, 'confidence', {own}.confidence, 'expires_at', {own}.expires_at,
            'replaced', (SELECT jsonb_build_object('id', before.id, 'content', left(before.content, 300), 'said_at', before.updated_at,
                                                   'until', CASE WHEN {own}.created_at >= before.updated_at
                                                                 THEN {own}.created_at ELSE {own}.updated_at END)
                           FROM memory_entries AS before
                          WHERE before.agent_identity = {own}.agent_identity AND before.id = {own}.replaces
                            AND readable(before)))) END AS structure

-- fragment: comes_after(later; time)
-- Whether a time by a home's clock is later than another one. One far ahead, from a machine whose clock was wrong, says nothing
-- about a time that is not ahead: the home has lost its own clock since, and what it writes now would count as old for so long.
({later} > {time} AND ({later} <= now() + interval '1 hour' OR {time} > now()))

-- fragment: in_file_since(m)
-- Whether this host's file got the memory's text after the write at hand, which waited.
EXISTS (SELECT FROM hermes_mirror AS f
         WHERE f.agent_identity = {m}.agent_identity AND f.origin = %(origin)s AND f.target = {m}.target
           AND f.digest = {m}.digest AND comes_after(f.noted_at; %(noted_at)s))

-- fragment: held_entry(f)
-- Whether a memory file held the entry when it was last read, and not only before.
({f}.held_at IS NULL AND {f}.kept_at IS NULL)

-- fragment: last_removal()
-- What a tombstone says of a text that is removed again: the later removal, by whom and when. The clock of each home is its own.
removed_at = greatest(hermes_tombstones.removed_at, excluded.removed_at),
origin = CASE WHEN excluded.removed_at >= hermes_tombstones.removed_at THEN excluded.origin ELSE hermes_tombstones.origin END

-- fragment: has_owner(m)
-- Whether somebody keeps the memory besides the hosts' memory files. An agent of version 1.0, which may write beside this one,
-- names no owner: then the source says who it was.
({m}.owners <> '{}' OR coalesce({m}.metadata ->> 'source', '') = ANY ('{remember,operator,delegation}'::text[]))

-- fragment: may_be_embedded()
-- Pauses last ten minutes at most. What is to wait for longer got that while the server's clock was ahead.
(embed_after IS NULL OR embed_after < now() OR embed_after > now() + interval '2 hours')

-- fragment: due_themes(table)
SELECT agent_identity AS theme
  FROM (SELECT id, agent_identity FROM {table}
         WHERE embedding IS NULL AND sig IS NULL AND may_be_embedded()
         ORDER BY id LIMIT %(limit)s) AS due
 GROUP BY agent_identity ORDER BY min(id)

-- fragment: claim_due(table)
UPDATE {table} AS t SET embed_after = now() + make_interval(secs => %(lease_s)s)
 WHERE t.agent_identity = %(theme)s
   AND t.id IN (SELECT id FROM {table}
                 WHERE agent_identity = %(theme)s AND embedding IS NULL AND sig IS NULL
                   AND may_be_embedded()
                 ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
RETURNING t.id, t.content

-- fragment: postpone(table)
UPDATE {table} SET embed_after = now() + make_interval(secs => %(pause_s)s)
 WHERE agent_identity = %(theme)s AND id = ANY(%(ids)s) AND embedding IS NULL

-- fragment: clear_chunks(chunks; table)
-- Rows that another process has embedded meanwhile are left alone.
DELETE FROM {chunks} WHERE agent_identity = %(theme)s AND row_id = ANY(%(ids)s)
   AND EXISTS (SELECT FROM {table} AS t WHERE t.agent_identity = %(theme)s AND t.id = row_id AND t.embedding IS NULL)

-- fragment: fill(table; chunks; same_text)
WITH filled AS (
    UPDATE {table} SET embedding = %(embedding)s, sig = binary_quantize(%(embedding)s::vector),
           code = hermes_code(%(embedding)s::vector), embed_after = NULL
     WHERE agent_identity = %(theme)s AND id = %(id)s AND embedding IS NULL AND {same_text}
    RETURNING id, agent_identity)
INSERT INTO {chunks} (row_id, part, agent_identity, first_char, embedding, sig)
SELECT filled.id, chunk.part, filled.agent_identity, chunk.first_char, chunk.embedding, binary_quantize(chunk.embedding)
  FROM filled
 CROSS JOIN unnest(%(first_chars)s::integer[], %(embeddings)s::vector[])
       WITH ORDINALITY AS chunk(first_char, embedding, part)

-- fragment: kept_vector()
embedding = coalesce(memory_entries.embedding, excluded.embedding), sig = coalesce(memory_entries.sig, excluded.sig),
       code = coalesce(memory_entries.code, excluded.code)

-- fragment: said_again()
-- When a text is stored already: fields that are given replace the stored ones, others keep their values. A memory that was
-- put away is current again if it is said anew. `said_kind` is the kind if it is given: that of a new row may be assumed.
kind = coalesce(%(said_kind)s, memory_entries.kind, excluded.kind), subject = coalesce(excluded.subject, memory_entries.subject),
       scope = coalesce(excluded.scope, memory_entries.scope),
       state = CASE WHEN %(anew)s AND excluded.updated_at >= memory_entries.updated_at
                    THEN coalesce(excluded.state, CASE WHEN memory_entries.state IS NOT NULL THEN 'active' END)
                    ELSE coalesce(memory_entries.state, excluded.state) END,
       expires_at = coalesce(excluded.expires_at, memory_entries.expires_at),
       confidence = coalesce(excluded.confidence, memory_entries.confidence),
       sources = coalesce(excluded.sources, memory_entries.sources),
       applies_when = coalesce(excluded.applies_when, memory_entries.applies_when),
       pinned = coalesce(excluded.pinned, memory_entries.pinned)

-- fragment: removed_at_origin()
-- Whether a memory `m` was removed at its origin, as `given` says, and not confirmed here later. A memory file that drops an
-- entry removes no memory that somebody else keeps.
m.agent_identity = %(theme)s AND m.target = given.target AND m.digest = given.digest AND m.updated_at <= given.removed_at
       AND (given.origin = '' OR NOT has_owner(m))

-- fragment: of_later(column)
-- Of a memory `m` and the same text `given`, the value that was said later or, if there is none, the earlier one.
CASE WHEN given.updated_at > m.updated_at THEN coalesce(said.{column}, m.{column}) ELSE coalesce(m.{column}, said.{column}) END

-- fragment: later_state()
-- Likewise its state, where a memory without one counts as active.
CASE WHEN m.state IS NULL AND said.state IS NULL THEN NULL
            WHEN given.updated_at > m.updated_at THEN coalesce(said.state, 'active') ELSE coalesce(m.state, 'active') END

-- fragment: memory_passes()
-- The filters of a question. A generic plan does not fold parameters: outside a sub-select one would be cast for each row.
(%(target)s::text IS NULL OR target = %(target)s)
AND (%(session_id)s::text IS NULL OR metadata ->> 'session_id' = %(session_id)s)
AND of_kind() AND updated_at >= (SELECT %(since)s::timestamptz) AND updated_at < (SELECT %(until)s::timestamptz)

-- fragment: of_kind()
-- The text index does not hold kinds. A memory without one counts as a fact.
CASE WHEN %(kinds)s::text[] IS NULL THEN true
         ELSE EXISTS (SELECT FROM (SELECT said.id AS number, coalesce(said.kind, 'fact') AS said FROM memory_entries AS said) AS one
                       WHERE one.number = id AND one.said = ANY(%(kinds)s::text[])) END

-- fragment: turn_passes()
(%(role)s::text IS NULL OR role = %(role)s)
AND ts >= (SELECT %(since)s::timestamptz) AND ts < (SELECT %(until)s::timestamptz)

-- fragment: turn_passes_in_any_session()
(%(role)s::text IS NULL OR role = %(role)s)
AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
AND ts >= (SELECT %(since)s::timestamptz) AND ts < (SELECT %(until)s::timestamptz)

-- fragment: memory_passes_in_sight()
-- Likewise for a plan that is made for the values, which the planner has to see.
(%(target)s::text IS NULL OR target = %(target)s)
AND of_kind() AND updated_at >= %(since)s::timestamptz AND updated_at < %(until)s::timestamptz

-- fragment: turn_passes_in_sight()
(%(role)s::text IS NULL OR role = %(role)s)
AND ts >= %(since)s::timestamptz AND ts < %(until)s::timestamptz

-- fragment: row_passes(asked; table; chunks; passes)
-- Whether the row of a part passes the filters and may be read, where that is asked.
CASE WHEN {asked} THEN EXISTS (
             SELECT FROM {table} AS t WHERE t.id = row_id AND t.agent_identity = {chunks}.agent_identity
                AND {passes} AND readable(t)) ELSE true END

-- fragment: same_row(t)
-- An id belongs to one theme only as long as nobody sets a sequence back, as a restore of the data alone does.
{t}.id = candidates.id AND {t}.agent_identity = candidates.agent_identity

-- fragment: nearest_memories()
-- The nearest of the candidates. `OFFSET 0` makes the planner look them up one by one; without knowing the sizes it might read
-- the whole table for them. Equally near rows stand as in the order of both legs, whose first turns are smoothed.
SELECT id, 1 - distance AS similarity
  FROM candidates CROSS JOIN LATERAL (
       SELECT embedding <=> %(vector)s AS distance FROM memory_entries AS t WHERE same_row(t) OFFSET 0) AS near
 ORDER BY distance + 0, id DESC LIMIT %(limit)s

-- fragment: nearest_turns()
SELECT id, 1 - distance AS similarity
  FROM candidates CROSS JOIN LATERAL (
       SELECT turn_distance(t) AS distance FROM conversations AS t WHERE same_row(t) OFFSET 0) AS near
 ORDER BY distance + 0, id DESC LIMIT %(limit)s

-- fragment: earlier_than_it(p)
-- The turns before a turn `c`, in the same session of the same theme, nearest first. See neighbours.
{p}.session_id = c.session_id AND ({p}.ts, {p}.id) < (c.ts, c.id)
                AND CASE WHEN {p}.agent_identity = c.agent_identity THEN true ELSE false END AND readable({p})
              ORDER BY {p}.ts DESC, {p}.id DESC

-- fragment: later_than_it(n)
{n}.session_id = c.session_id AND ({n}.ts, {n}.id) > (c.ts, c.id)
                AND CASE WHEN {n}.agent_identity = c.agent_identity THEN true ELSE false END AND readable({n})
              ORDER BY {n}.ts, {n}.id

-- fragment: turns_beside_it()
ARRAY(SELECT p.id FROM conversations AS p WHERE earlier_than_it(p) LIMIT %(reach)s) AS before,
       ARRAY(SELECT n.id FROM conversations AS n WHERE later_than_it(n) LIMIT %(reach)s) AS after,
       brevity(c.tsv; %(pivot)s::float8) AS brevity

-- fragment: with_turns_beside(nearest)
-- The nearest turns. The first `lookup` of them that are not `known`, and those in `lookups`, have the columns of neighbours as
-- well. For the others the key is null, which no row has, so nothing is looked up.
SELECT nearest.*, before, after, brevity
  FROM (SELECT found.*, row_number() OVER () AS place FROM ({nearest}) AS found) AS nearest
  LEFT JOIN LATERAL (
       SELECT turns_beside_it()
         FROM conversations AS c
        WHERE c.id = CASE WHEN (place <= %(lookup)s AND nearest.id <> ALL(%(known)s::bigint[]))
                             OR nearest.id = ANY(%(lookups)s::bigint[]) THEN nearest.id END
        OFFSET 0) AS beside ON true
 ORDER BY place

-- fragment: beginning(t)
-- The beginning of a very long text, whose size is known without reading it.
CASE WHEN octet_length({t}.content) <= 100000 THEN {t}.content ELSE left({t}.content, 20000) END AS content

-- fragment: shown_beside(t)
-- The columns of a turn that is shown beside another one.
{t}.id, {t}.agent_identity AS theme, {t}.role AS kind, {t}.session_id,
              beginning({t}),
              {t}.ts AS at, NULL::float8 AS similarity, 0 AS nearest_char, 0 AS first_char,
              CASE WHEN octet_length({t}.content) > 100000 THEN octet_length({t}.content) ELSE 0 END AS size

-- fragment: incarnation()
-- Identifies the server, this start of it, and this creation of its tables. It does not depend on the session's settings.
concat_ws('/', extract(epoch FROM pg_postmaster_start_time()), to_regclass('conversations')::oid)

-- fragment: limits()
set_config('statement_timeout', %(statement_ms)s, true) AS statement,
       set_config('lock_timeout', %(lock_ms)s, true) AS lock,
       set_config('idle_in_transaction_session_timeout', %(idle_ms)s, true) AS idle,
       -- A timer that is running already is not restarted by a new value.
       CASE WHEN current_setting('server_version_num')::integer >= 170000 THEN
            set_config('transaction_timeout', '0', true) || set_config('transaction_timeout', %(transaction_ms)s, true) END AS whole,
       set_config('plan_cache_mode', %(plans)s, true) AS plans,
       -- If one theme has most of a table, an index of codes is read nearly whole. A planner that counts each of its pages as
       -- a random read takes that for more expensive than reading the table.
       CASE %(plans)s WHEN 'force_generic_plan' THEN set_config('random_page_cost', current_setting('seq_page_cost'), true) END AS seeks,
       row_security_active(to_regclass('conversations')) AS row_security, incarnation() AS incarnation

-- fragment: expected_settings()
-- Settings that answers or plans depend on, and that a role or a database may have changed.
(VALUES ('DateStyle', 'ISO, YMD'), ('IntervalStyle', 'postgres'), ('TimeZone', 'UTC'), ('extra_float_digits', '1'),
                       ('standard_conforming_strings', 'on'), ('array_nulls', 'on'), ('row_security', 'on'),
                       ('gin_fuzzy_search_limit', '0'), ('jit', 'off'), ('enable_sort', 'off'), ('enable_seqscan', 'on'),
                       ('enable_indexscan', 'on'), ('enable_indexonlyscan', 'on'), ('enable_bitmapscan', 'on'),
                       ('enable_nestloop', 'on'), ('enable_hashjoin', 'on'), ('enable_mergejoin', 'on'),
                       ('enable_hashagg', 'on'), ('enable_material', 'on')) AS given(name, value)

-- fragment: is_thin()
-- Whether so few candidates were readable that others may have been cut off.
(SELECT count(*) FROM candidates) >= %(depth)s
  AND (SELECT count(*) FROM passed) < greatest(%(limit)s, %(depth)s / 3)

-- fragment: given_words()
-- The words of a question; see lexical_search_memories.
words AS MATERIALIZED (
    SELECT matcher::tsquery AS query, holding, share, absent, word::integer
      FROM unnest(%(matchers)s::text[], %(holding)s::float8[], %(shares)s::float8[], %(absent)s::float8[])
           WITH ORDINALITY AS given(matcher, holding, share, absent, word))

-- fragment: newest_words_in(table; time)
-- From the newest rows of the theme: whether most hold some word, and the pivot of its texts' length. If even the short texts
-- are long, as notes of a page are, the pivot is larger, and length counts as much as in BM25.
newest_words AS MATERIALIZED (
    SELECT CASE WHEN %(whole)s::boolean THEN true
                WHEN %(rows)s::float8 > 150 THEN %(exact)s::boolean AND count(*) FILTER (WHERE tsv @@ (SELECT %(match)s::tsquery)) > 0.75 * count(*)
                ELSE %(exact)s::boolean END AS wide,
           greatest(%(pivot)s::float8, 2 * percentile_disc(0.1) WITHIN GROUP (ORDER BY length(tsv))) AS pivot
      FROM (SELECT tsv FROM {table} WHERE agent_identity = %(theme)s ORDER BY {time} DESC LIMIT 50) AS newest)

-- fragment: theme_word()
-- The lexeme of the theme, which the text index holds for each row.
('''' || hermes_theme_lexeme(%(theme)s) || '''')::tsquery

-- fragment: match_in_scope()
CASE WHEN %(any_theme)s::boolean THEN %(match)s::tsquery ELSE theme_word() && %(match)s::tsquery END

-- fragment: match_or_theme()
CASE WHEN %(any_theme)s::boolean THEN %(match)s::tsquery
              WHEN %(match)s::text IS NULL THEN theme_word() ELSE theme_word() && %(match)s::tsquery END

-- fragment: match_unless_wide()
CASE WHEN (SELECT wide FROM newest_words) THEN theme_word() ELSE theme_word() && %(match)s::tsquery END

-- fragment: theme_unless_any()
CASE WHEN NOT %(any_theme)s::boolean THEN %(theme)s END

-- fragment: brevity(tsv; pivot)
-- Falls from 1, for a text without words, towards 0; it is a half at `pivot` lexemes.
(1 / (1 + length({tsv}) / {pivot}))

-- fragment: by_coverage(passes; pivot)
-- The rows of `matching` that pass, and those of `recent`, by the weight of the words they hold, long ones behind short ones.
-- Weights are whole millionths, so that rows with the same words have the same sum in any order of addition. In a tiny theme all
-- rows come here, and most hold no word: one test for all words at once excludes those.
hits AS NOT MATERIALIZED (
    (SELECT id, tsv FROM matching
     WHERE {passes}
     LIMIT 10000)
    UNION ALL SELECT id, tsv FROM recent),
pairs AS MATERIALIZED (
    SELECT id, brevity, word
      FROM (SELECT id, tsv, brevity(tsv; {pivot}) AS brevity FROM hits
             WHERE CASE WHEN %(rows)s::float8 > 150 THEN true
                        ELSE hits.tsv @@ (SELECT array_to_string(%(matchers)s::text[], ' | ')::tsquery) END
            OFFSET 0) AS proposed
     CROSS JOIN words
     WHERE proposed.tsv @@ words.query),
counted AS (
    SELECT word, count(*) AS n FROM pairs GROUP BY word),
weights AS MATERIALIZED (
    SELECT word, held,
           (1e6 * share
                * CASE WHEN held > 0 THEN 1 ELSE absent * least(1, 8 / sum(absent) FILTER (WHERE held = 0) OVER ()) END
                * ln(1 + (greatest(%(rows)s::float8 - held, 0) + 0.5) / (greatest(held, 1) + 0.5)))::integer AS idf
      FROM (SELECT word, share, absent, coalesce(holding, n, 0) AS held FROM words LEFT JOIN counted USING (word)) AS known),
weighed AS (
    SELECT id, brevity, sum(idf) / (SELECT nullif(sum(idf), 0) FROM weights)::float8 AS coverage
      FROM pairs JOIN weights USING (word) GROUP BY id, brevity)
SELECT id, coverage, coverage * brevity AS score,
       ARRAY(SELECT word FROM weights WHERE held = 0) AS absent
  FROM weighed ORDER BY score DESC, id DESC LIMIT %(limit)s

-- fragment: counted_in_theme(table; chunks; time)
SELECT count(*) AS rows, EXISTS (SELECT FROM {chunks} WHERE agent_identity = %(theme)s) AS parts FROM (
    SELECT 1 FROM {table} WHERE agent_identity = %(theme)s ORDER BY {time} DESC LIMIT 5001) AS counted

-- fragment: counted_in_all(table; chunks)
SELECT count(*) AS rows, EXISTS (SELECT FROM {chunks}) AS parts FROM (SELECT 1 FROM {table} LIMIT 5001) AS counted

-- fragment: counted_words()
-- The words of a question, which in_sample counts in the rows of `sample`.
words AS MATERIALIZED (
    SELECT matcher, matcher::tsquery AS query FROM unnest(%(matchers)s::text[]) AS matcher)

-- fragment: in_sample()
SELECT matcher, (SELECT count(*) FROM sample) AS sampled,
       (SELECT count(*) FROM sample WHERE tsv @@ query) AS holding
  FROM words

-- fragment: holding_phrase(passes)
-- See phrase_search_memories.
measured AS (
    SELECT id, content, sum(least(octet_length(content), 16000000)) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
      FROM (SELECT id, content FROM matching
             WHERE (agent_identity = %(theme)s OR %(any_theme)s::boolean)
               AND {passes}
             LIMIT 10000) AS passed)
SELECT id FROM measured
 WHERE bytes < 20000000
   AND position((SELECT hermes_folded(%(phrase)s)) IN hermes_folded(left(content, 4000000))) > 0
 ORDER BY id DESC LIMIT %(limit)s

-- fragment: likest_words(table)
-- See near_words_memories. A slip adds or leaves out two letters at most (`is_slip`); the lengths are compared first, as
-- similarity takes twenty times as long, and the vocabulary may be one of log lines.
vocabulary AS MATERIALIZED (
    SELECT DISTINCT lexeme FROM (
        SELECT held.lexeme FROM (
          SELECT tsv FROM rows
           WHERE (agent_identity = %(theme)s OR %(any_theme)s::boolean)
             AND CASE WHEN agent_identity = %(own)s::text THEN true
                      ELSE EXISTS (SELECT FROM {table} AS said WHERE said.id = rows.id AND readable(said)) END
           LIMIT 2000) AS read
         CROSS JOIN LATERAL unnest(read.tsv) AS held
         LIMIT 100000) AS looked_at
     WHERE left(lexeme, 1) = ANY(%(initials)s::text[]))
SELECT word, lexeme
  FROM unnest(%(words)s::text[]) AS word
 CROSS JOIN LATERAL (
    SELECT lexeme FROM vocabulary
     WHERE CASE WHEN abs(length(lexeme) - length(word)) <= 2 THEN similarity(lexeme, word) >= 0.2 ELSE false END
     ORDER BY similarity(lexeme, word) DESC, lexeme LIMIT 20) AS near

-- fragment: readable_turn(rows)
-- Whether a turn found in the text index may be read; in the session's own theme that takes no metadata.
CASE WHEN agent_identity = %(own)s::text THEN true
     ELSE EXISTS (SELECT FROM conversations AS said WHERE said.id = {rows}.id AND readable(said)) END

-- fragment: shown_text()
-- The part of a long text that is shown, and where it begins, so that nobody waits until all of it was read. The size of a
-- text is known without reading it. Words are looked for in its first 1,000,000 characters.
CASE WHEN octet_length(own.content) <= 100000 THEN own.content
            ELSE substr(own.content, part.first + 1, 20000) END AS content

-- fragment: shown_place()
-- A vector of zeros has no direction: to any other its distance is NaN, which says nothing and is no JSON.
greatest(nullif(1 - own.distance, 'NaN'), nullif(1 - near.part[1], 'NaN')) AS similarity,
       CASE WHEN near.part[1] < own.distance THEN near.part[2]::integer ELSE 0 END AS nearest_char,
       part.first AS first_char, CASE WHEN octet_length(own.content) > 100000 THEN octet_length(own.content) ELSE 0 END AS size

-- fragment: first_shown()
CASE WHEN octet_length(own.content) <= 100000 THEN 0
                   WHEN near.part[1] < own.distance AND near.part[2] <= 4000000 THEN greatest(0, near.part[2]::integer - 1000)
                   ELSE greatest(0, coalesce((
                        SELECT nullif(strpos(whole.body, lower(word COLLATE "C")), 0)
                          FROM (SELECT lower(left(own.content, 1000000) COLLATE "C") AS body OFFSET 0) AS whole
                         CROSS JOIN unnest(%(words)s::text[]) AS word
                         WHERE strpos(whole.body, lower(word COLLATE "C")) > 0 LIMIT 1), 0) - 10000) END

-- fragment: in_theme()
-- The CASE keeps the planner from using the indexes of the theme.
CASE WHEN agent_identity = %(theme)s THEN true ELSE %(any_theme)s END

-- fragment: of_theme(t)
-- The same for one theme only.
CASE WHEN {t}.agent_identity = %(theme)s THEN true ELSE false END

-- fragment: of_session()
-- Whether a turn `c` belongs to the session of `edge`.
c.session_id = edge.session_id AND of_theme(c) AND readable(c)

-- fragment: first_asked(session)
-- What the user said first in a session.
ARRAY(SELECT left(said.content, %(chars)s) FROM conversations AS said
              WHERE said.session_id = {session} AND said.role = 'user' AND of_theme(said)
              ORDER BY said.ts, said.id LIMIT %(asked)s) AS asked

-- fragment: told_in_time(time)
-- Whether a row was written in one of the periods that a question names (2), around one of them (1), or not (0). Events are
-- told when they happen or soon after, and a day is easily mistaken for the next one.
(SELECT coalesce(max(CASE WHEN {time} >= start AND {time} < stop THEN 2
                          WHEN {time} >= start - '1 day'::interval AND {time} < stop + '3 days'::interval THEN 1 END), 0)
   FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS period(start, stop))
