-- hermes-memory-pgvector, migration 008: Latin words, numbers and identifiers are found where they stand between Chinese, Japanese,
-- Korean or Thai characters without a blank, both words of a name such as ReactJS, and the parts of names by any form of these;
-- AT&T, IT and flags are words; soft hyphens, zero-width characters, vowel marks of Hebrew and Arabic, letters such as ł and ø, and
-- capital letters of ß and ς make no other word; so do no unit, as in 400mg, no sign before a number, and none within AB-1234 or
-- 1,299. What stands in angle brackets has its words, too.
--
-- Run it after 007_proposals.sql, in the same ways. Running it again changes nothing. It only replaces a function, and takes no
-- longer for a large table. Rows that are stored already keep their words until
--     hermes-pgvector migrate --admin-dsn "dbname=hermes_memory user=postgres"
-- has read them anew, while agents go on. Interrupted, it goes on where it was.

BEGIN;

SELECT pg_advisory_xact_lock(7310579462);
SET LOCAL lock_timeout = '800ms';

ALTER TABLE hermes_migrations ADD COLUMN IF NOT EXISTS completed_at timestamptz;
COMMENT ON COLUMN hermes_migrations.completed_at IS
    'of a migration that leaves stored rows to `hermes-pgvector migrate`: since when they are done; NULL of the others';

-- Words (stems of the text's language, accents folded), identifiers whole and in parts (each as it is, and by its stem), emoji,
-- and pairs of characters where a script has no spaces; Latin words and numbers between such characters are words of their own.
-- `language` is the name of a text search configuration of Postgres; an unknown one means `simple`, which stems nothing.
-- Nothing raises: of a text the first two million characters are indexed, and what does not fit into the 1 MB of a tsvector is
-- left out, piece by piece.
CREATE OR REPLACE FUNCTION hermes_lexemes(body text, language text DEFAULT 'english') RETURNS tsvector
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $lexemes$
DECLARE
    -- Thai, Lao, Burmese, Khmer, Japanese, Chinese, Korean.
    spaceless constant text := '\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0002ffff';
    -- Those of Latin, Greek and Cyrillic letters; vowels and other marks that Hebrew and Arabic are mostly written without.
    accents   constant text := '[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0655\u0670]';
    -- Letters with a stroke, the Turkish i without its dot, and the ς at the end of a word are no others plus an accent; Arabic
    -- and Persian keyboards write one letter by two signs.
    other     constant text := 'ςłŁøØđĐıħĦŧŦيىك';
    plain     constant text := 'σlLoOdDihHtTییک';
    -- Soft hyphen, zero-width space and non-joiner, word joiner, byte order mark: they stand within words, and few type them. Those
    -- between combining marks stay: a longer row of marks takes long to put into order.
    letters   constant text := '[a-zA-Z0-9\u00c0-\u024f\u0370-\u0481\u048a-\u052f\u05d0-\u05ea\u0620-\u064a\u0671-\u06d3\u1e00-\u1fff\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]';
    hidden    constant text := '[\u00ad\u200b\u200c\u2060\ufeff]+';
    unseen    constant text := hidden || '(?=' || letters || ')|(?<=' || letters || ')' || hidden;
    -- In a name, number, address or path that goes on for thousands of characters the parser looks at each sign as far ahead as
    -- it goes, which takes time by the square of its length: after 200 characters, the next sign ends one and begins another.
    endless   constant text := '([A-Za-z0-9_.:/@~%&+-]{200}[A-Za-z0-9]*)[_.:/@~%&+-]';
    -- Pieces overlap, so that what one cut goes through is whole in the other.
    size      constant integer := 20000;
    overlap   constant integer := 200;
    last      constant integer := least(100, greatest(0, (length(body) - overlap - 1) / (size - overlap)));
    config    regconfig := 'pg_catalog.english';
    stems     boolean := false;
    block     text;
    raw       text;
    folded    text;
    found     tsvector;
    names     text;
    parts     text;
    tokens    text[];
    is_spaceless boolean;
    total     tsvector := '';
BEGIN
    IF language <> 'english' THEN
        config := coalesce((SELECT oid FROM pg_catalog.pg_ts_config
                             WHERE cfgname = language AND cfgnamespace = 'pg_catalog'::regnamespace), 'pg_catalog.simple'::regconfig);
        stems := config <> 'pg_catalog.simple'::regconfig;
    END IF;
    FOR part IN 0..last LOOP
        IF part % 40 = 0 THEN
            -- To cut one piece takes time by the length of what it is cut from.
            block := substr(body, 1 + part * (size - overlap), 40 * (size - overlap) + overlap);
        END IF;
        -- The parser would take what stands in angle brackets for a tag, and leave it out: List<Invoice>, <module>. Of an
        -- address on the web it would take all that is asked there for one word.
        raw := substr(block, 1 + part % 40 * (size - overlap), size);
        IF translate(raw, '<>＜＞?=', '') <> raw THEN
            raw := regexp_replace(raw, '[<＜]/?|/?[>＞]|[?=]', ' ', 'g');
        END IF;
        tokens := NULL;
        IF raw ~ '[^\x01-\x7f]' THEN
            raw := left(normalize(translate(regexp_replace(raw, unseen, '', 'g'), 'ʼ', ''''), NFKC), 2 * size);
            folded := normalize(regexp_replace(normalize(raw, NFKD), accents, '', 'g'), NFKC);
            folded := replace(replace(translate(folded, other, plain), 'ß', 'ss'), 'ẞ', 'SS');
            raw := regexp_replace(raw, endless, '\1 ', 'g');
            folded := regexp_replace(folded, endless, '\1 ', 'g');
            is_spaceless := folded ~ ('[' || spaceless || ']');
            IF is_spaceless THEN
                -- Pairs at even places of each run, then at odd ones: linear, where a walk with substr would be quadratic.
                SELECT array_agg(DISTINCT m[1]) INTO tokens FROM (
                    SELECT regexp_matches(folded, '([' || spaceless || ']{1,2})', 'g')
                    UNION ALL
                    SELECT regexp_matches(
                        regexp_replace(folded, '(^|[^' || spaceless || '])[' || spaceless || ']', '\1 ', 'g'),
                        '([' || spaceless || ']{1,2})', 'g')
                ) AS runs(m);
                -- The parser would take what stands between two signs for one word, whatever scripts it is of.
                raw := regexp_replace(raw, '[' || spaceless || ']+', ' ', 'g');
                folded := regexp_replace(folded, '[' || spaceless || ']+', ' ', 'g');
            END IF;
            -- A stemmer and its stop words need the accents: the stems are folded, not the words.
            IF stems THEN
                -- Of a word of nothing but such marks, as Arabic fills a line with, nothing is left, which is no lexeme.
                found := regexp_replace(
                    normalize(regexp_replace(normalize(to_tsvector(config, raw)::text, NFKD), accents, '', 'g'), NFKC),
                    '(^| )''''(:[0-9,]+)?(?= |$)', '', 'g')::tsvector;
                found := replace(translate(found::text, other, plain), 'ß', 'ss')::tsvector;
            ELSE
                found := to_tsvector(config, folded);
            END IF;
            IF is_spaceless THEN
                found := found || array_to_tsvector(tokens);
            END IF;
            SELECT array_agg(DISTINCT m[1]) INTO tokens
              FROM regexp_matches(folded, '([\u231a-\u23ff\u2600-\u27bf\u2b05-\u2b55\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff])', 'g') AS m;
            IF tokens IS NOT NULL THEN
                found := found || array_to_tsvector(tokens);
            END IF;
        ELSE
            folded := regexp_replace(raw, endless, '\1 ', 'g');
            found := to_tsvector(config, folded);
        END IF;
        SELECT string_agg(m[1], ' ') INTO names
          FROM regexp_matches(
                   folded, '([[:alnum:]]+(?:[-_./:#@][[:alnum:]]+)+|[[:alpha:]]+&[[:alnum:]]+|[[:alnum:]]*(?:[a-z0-9][A-Z]|[A-Z][A-Z][a-z][a-z])[[:alnum:]]*|[[:alpha:]]+[0-9][[:alnum:]]*|\m[0-9]{1,12}[[:alpha:]]{1,8}\M|[-+][0-9][[:alnum:]]*|[A-Z]{2,}s|[0-9]{1,3}(?:,[0-9]{3})+)', 'g') AS m;
        IF names IS NOT NULL THEN
            -- Both words of ReactJS, of IOException, and of 400mg; PDF of PDFs.
            parts := names;
            IF names ~ '[A-Z]{2}' THEN
                parts := regexp_replace(parts, '\m([A-Z]{2,})s\M', '\1', 'g');
                parts := regexp_replace(parts, '([A-Z])([A-Z][a-z][a-z])', '\1 \2', 'g');
            END IF;
            parts := lower(regexp_replace(regexp_replace(parts, '([a-z0-9])([A-Z])', '\1 \2', 'g'), '[^[:alnum:]]+', ' ', 'g'));
            IF parts ~ '[0-9][[:alpha:]]' THEN
                parts := regexp_replace(parts, '\m([0-9]{1,12})([[:alpha:]]{1,8})\M', '\1\2 \1 \2', 'g');
            END IF;
            -- AB-1234, 555-0142, 1,299 and e-mail are also written without the sign.
            IF names ~ '[0-9].?[-.,][0-9]|[-][0-9]|[0-9][-]|\m[[:alpha:]]-' THEN
                SELECT concat_ws(' ', parts, string_agg(regexp_replace(lower(word), '[-.,]', '', 'g'), ' ')) INTO parts
                  FROM regexp_split_to_table(names, '[ /:#@]+') AS word
                 WHERE word ~ '^[[:alpha:]]-[[:alpha:]]+$|^[0-9]{1,3}(?:[.,][0-9]{3})+$'
                    OR (word ~ '[0-9]' AND word ~ '^[[:alnum:]]+(?:-[[:alnum:]]+)+$');
            END IF;
            names := lower(names) || ' ' || parts;
            found := found || to_tsvector('pg_catalog.simple', names)
                           || array_to_tsvector(ARRAY(
                                  SELECT DISTINCT left(word, 200) FROM string_to_table(names, ' ') AS word WHERE word <> ''));
            IF language <> 'simple' THEN
                -- Who asks for a part asks with a word of the language, of which the stem is looked for.
                found := found || to_tsvector(config, parts);
            END IF;
        END IF;
        -- IT, WHO: in small letters they say nothing. In a text of capital letters alone they do neither.
        IF folded ~ '[a-z]' AND folded ~ '\m[A-Z]{2,5}\M' THEN
            SELECT array_agg(lower(word)) INTO tokens
              FROM (SELECT DISTINCT m[1] AS word FROM regexp_matches(folded, '\m([A-Z]{2,5})\M', 'g') AS m OFFSET 0) AS short
             WHERE length(to_tsvector(config, word)) = 0;
            IF tokens IS NOT NULL THEN
                found := found || array_to_tsvector(tokens);
            END IF;
        END IF;
        IF last = 0 THEN
            RETURN found;
        END IF;
        found := strip(found);
        IF pg_column_size(total) + pg_column_size(found) < 1048000 THEN
            total := total || found;
        END IF;
    END LOOP;
    RETURN total;
END
$lexemes$;

DO $rows$
DECLARE
    filled boolean := EXISTS (SELECT FROM memory_entries) OR EXISTS (SELECT FROM conversations);
BEGIN
    INSERT INTO hermes_migrations (version, name, checksum, completed_at)
    VALUES (8, 'words', 'f7a1108075840957e27eea4cd50f010dec927c7bf734165e3235e2dd42e40e19', CASE WHEN NOT filled THEN now() END)
    ON CONFLICT (version) DO NOTHING;
    IF filled AND (SELECT completed_at IS NULL FROM hermes_migrations WHERE version = 8) THEN
        RAISE NOTICE 'stored rows keep their words until this has read them anew: hermes-pgvector migrate --admin-dsn "dbname=% user=%"',
            current_database(), current_user;
    END IF;
END
$rows$;

COMMIT;
