-- Search words for rows stored before migration 008, which also reads Latin words between characters without blanks and
-- the stems of a name's parts, and which makes the same word of more spellings. For an administrator.

-- name: words_are_read
-- exempt: reads the record of migrations only. NULL means that there is no such migration.
SELECT (SELECT completed_at IS NOT NULL FROM hermes_migrations WHERE version = 8) AS read;

-- name: end_of_rows
-- exempt: numbers of rows only. The last id of the next {piece}, and of all rows.
SELECT (SELECT max(id) FROM (SELECT id FROM {table} WHERE id > %(after)s ORDER BY id LIMIT {piece}) AS next) AS piece,
       (SELECT max(id) FROM {table}) AS whole;

-- name: read_words
-- exempt: a column that is generated, row by row, by their numbers: walking by place could miss a row that is written
-- meanwhile. Setting the column that the generated one depends on recomputes it. The pattern selects the texts that may
-- contain something that was read differently before.
UPDATE {table} SET text_language = text_language
 WHERE id > %(after)s AND id <= %(piece)s
   AND content ~ '[^\x01-\x7f]|[[:alnum:]][-_./:#@&][[:alnum:]]|[a-z0-9][A-Z]|[0-9][[:alpha:]]|[-+][0-9]|[<>?=]|[A-Z][A-Z]|[0-9],[0-9]'
   AND tsv IS DISTINCT FROM hermes_search_vector(agent_identity, content, text_language);

-- name: note_words_read
-- exempt: the record of migrations.
UPDATE hermes_migrations SET completed_at = now() WHERE version = 8 AND completed_at IS NULL;
