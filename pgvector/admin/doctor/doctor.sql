-- Doctor's queries to a server, and its repairs there as an admin.

-- name: look_at_server
-- exempt: touches no table of ours.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS read_only;

-- name: newer_extension
-- exempt: touches no table of ours.
SELECT default_version AS version FROM pg_available_extensions
 WHERE name = 'vector' AND string_to_array(default_version, '.')::int[] > string_to_array(installed_version, '.')::int[];

-- name: may_compare_sequence
-- exempt: touches no table.
SELECT has_table_privilege({name}, 'SELECT')
       AND (has_sequence_privilege(owned, 'USAGE') OR has_sequence_privilege(owned, 'SELECT')) AS may
  FROM CAST(pg_get_serial_sequence({name}, 'id') AS regclass) AS owned;

-- name: sequence_and_rows
-- exempt: the highest numbers only.
SELECT pg_sequence_last_value(owned) AS last, (SELECT max(id) FROM {table}) AS highest
  FROM CAST(pg_get_serial_sequence({name}, 'id') AS regclass) AS owned;

-- name: advance_sequence
-- exempt: the highest numbers only.
LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE;
SELECT setval(owned, greatest((SELECT max(id) FROM {table}), pg_sequence_last_value(owned), 1))
  FROM CAST(pg_get_serial_sequence({name}, 'id') AS regclass) AS owned;

-- name: sample_next
-- exempt: counts for the operator, from a sample of a large table.
SELECT count(embedding_next) AS done, count(*) AS total,
       greatest(1.0, pg_relation_size({rows_name}::regclass) / %(sample)s::float8) AS scale
  FROM {rows} TABLESAMPLE SYSTEM (least(100, 100.0 * %(sample)s / greatest(1, pg_relation_size({rows_name}::regclass))));

-- name: forget_left_memories
-- What proofs that were killed have stored, and the record that a file holds it.
WITH gone AS (
    DELETE FROM memory_entries
     WHERE agent_identity = %(theme)s AND content LIKE ANY(%(memories)s::text[]) AND updated_at < %(before)s
       AND metadata ->> 'session_id' = %(session)s AND owners = '{}'
    RETURNING target, digest)
DELETE FROM hermes_mirror AS f USING gone
 WHERE f.agent_identity = %(theme)s AND f.target = gone.target AND f.digest = gone.digest;

-- name: forget_left_turns
DELETE FROM conversations
 WHERE agent_identity = %(theme)s AND session_id LIKE %(sessions)s AND ts < %(before)s
   AND content IN (SELECT replace(said, '{}', session_id) FROM unnest(%(turns)s::text[]) AS said);
