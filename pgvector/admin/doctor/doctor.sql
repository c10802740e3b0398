-- Doctor's queries to a server, and its repairs there as an admin.

-- name: look_at_server
-- exempt: touches no table of ours.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS read_only;

-- name: who_could_replace
-- exempt: reads the catalogue only. Who may create objects that take the place of ours, and owns neither the place nor our
-- tables: an operator that fits better than Postgres' own is what policies call, with their owner's rights.
SELECT format('REVOKE CREATE ON %s %I FROM %s', o.kind, o.name,
              string_agg(coalesce(quote_ident(r.rolname), 'PUBLIC'), ', ' ORDER BY r.rolname)) AS statement,
       bool_or(a.grantee = 0) AS anybody
  FROM pg_class AS ours
 CROSS JOIN LATERAL (SELECT 'SCHEMA' AS kind, nspname AS name, nspowner AS owner, nspacl AS acl FROM pg_namespace
                      WHERE oid = ours.relnamespace OR oid = (SELECT extnamespace FROM pg_extension WHERE extname = 'vector')
                      UNION ALL
                     SELECT 'DATABASE', datname, datdba, datacl FROM pg_database WHERE datname = current_database()) AS o
 CROSS JOIN LATERAL aclexplode(o.acl) AS a LEFT JOIN pg_roles AS r ON r.oid = a.grantee
 WHERE ours.oid = to_regclass('memory_entries') AND a.privilege_type = 'CREATE'
   AND a.grantee NOT IN (o.owner, ours.relowner) AND r.rolsuper IS NOT TRUE
 GROUP BY o.kind, o.name;

-- name: newer_extension
-- exempt: touches no table of ours.
SELECT default_version AS version FROM pg_available_extensions
 WHERE name = 'vector' AND string_to_array(default_version, '.')::int[] > string_to_array(installed_version, '.')::int[];

-- name: last_number
-- exempt: touches no table. The last number that a table's sequence gave; no row for a role that may not compare it.
SELECT pg_sequence_last_value(owned) AS last FROM CAST(pg_get_serial_sequence({name}, 'id') AS regclass) AS owned
 WHERE has_table_privilege({name}, 'SELECT')
   AND (has_sequence_privilege(owned, 'USAGE') OR has_sequence_privilege(owned, 'SELECT'));

-- name: highest_number
-- exempt: a number only. No table has 10^12 rows: a number so far ahead was made up by somebody's SQL, is in nobody's way, and
-- would leave no numbers to a sequence that goes on after it.
SELECT max(id) AS highest FROM {table} WHERE id <= coalesce(%(last)s::bigint, 0) + 1000000000000;

-- name: hold_numbers
-- exempt: reads no row.
LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE;

-- name: set_last_number
-- exempt: touches no table.
SELECT setval(CAST(pg_get_serial_sequence({name}, 'id') AS regclass), %(last)s);

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

-- name: missing_indexes
-- exempt: reads the catalogue only. The HNSW indexes are an operator's to drop, and not in the list.
SELECT name FROM unnest('{memory_entries_theme_digest_key, memory_entries_theme_time_idx, memory_entries_theme_code_idx,
    memory_entries_theme_sig_idx, memory_entries_tsv_idx, memory_entries_pending_idx, memory_entries_subject_idx,
    memory_entries_procedures_idx, memory_entries_hidden_idx, conversations_theme_time_idx, conversations_theme_code_idx,
    conversations_theme_sig_idx, conversations_session_time_idx, conversations_tsv_idx, conversations_digest_idx,
    conversations_pending_idx, conversations_cold_idx, memory_chunks_theme_code_idx, memory_chunks_theme_sig_idx,
    conversation_chunks_theme_code_idx, conversation_chunks_theme_sig_idx, hermes_operations_time_idx,
    hermes_tombstones_time_idx, hermes_mirror_origin_idx, memory_history_theme_time_idx, memory_history_memory_idx,
    memory_history_time_idx, memory_history_text_idx, memory_history_removed_idx}'::text[]) AS name
 WHERE to_regclass(name) IS NULL
 UNION ALL
SELECT 'conversations_theme_digest_idx' FROM pg_class
 WHERE oid = to_regclass('conversations') AND relrowsecurity AND to_regclass('conversations_theme_digest_idx') IS NULL;

-- name: missing_keys
-- exempt: reads the catalogue only.
SELECT name, columns
  FROM (VALUES ('memory_entries', 'id, agent_identity'), ('conversations', 'id, agent_identity'),
               ('memory_chunks', 'row_id, part, agent_identity'), ('conversation_chunks', 'row_id, part, agent_identity'),
               ('memory_history', 'id, agent_identity'), ('hermes_operations', 'agent_identity, op_id'),
               ('hermes_tombstones', 'agent_identity, target, digest'),
               ('hermes_mirror', 'agent_identity, origin, target, digest'), ('hermes_retention', 'agent_identity'),
               ('hermes_proposals', 'id, agent_identity'), ('hermes_read_turns', 'turn_id, agent_identity'),
               ('hermes_embedding', 'only_row'), ('hermes_maintenance', 'id'), ('hermes_migrations', 'version'))
    AS wanted (name, columns)
 WHERE NOT EXISTS (SELECT FROM pg_index WHERE indrelid = to_regclass(name) AND indisprimary);

-- name: missing_triggers
-- exempt: reads the catalogue only.
SELECT owner, name
  FROM (VALUES ('memory_entries', 'keep_vectors keep_sig keep_chunks drop_chunks truncate_chunks note_memory note_change note_state
                                   note_truncate keep_facts change_facts'),
               ('conversations', 'keep_vectors keep_sig keep_chunks drop_chunks truncate_chunks drop_proposals truncate_proposals'),
               ('memory_chunks', 'keep_vectors'), ('conversation_chunks', 'keep_vectors')) AS wanted (owner, names)
 CROSS JOIN LATERAL regexp_split_to_table(names, '\s+') AS short CROSS JOIN LATERAL concat('hermes_', short) AS name
 WHERE NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass(owner) AND tgname = name)
 ORDER BY owner, name;

-- name: disabled_triggers
-- exempt: reads the catalogue only. Lists the tables with triggers of ours that do not run for agents.
SELECT DISTINCT tgrelid::regclass::text AS owner FROM pg_trigger
 WHERE tgrelid IN (to_regclass('memory_entries'), to_regclass('conversations'),
                   to_regclass('memory_chunks'), to_regclass('conversation_chunks'))
   AND tgname ^@ 'hermes_' AND tgenabled IN ('D', 'R')
 ORDER BY 1;

-- name: unlogged_tables
-- exempt: reads the catalogue only.
SELECT c.oid::regclass::text AS name FROM pg_class AS c
 WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('hermes_migrations'))
   AND (c.relname ^@ 'hermes_' OR c.relname IN ('memory_entries', 'conversations', 'memory_history', 'memory_chunks',
                                                'conversation_chunks'))
   AND c.relkind = 'r' AND c.relpersistence = 'u'
 ORDER BY 1;

-- name: other_collation
-- exempt: reads the catalogue only. As after an upgrade of the operating system, or a move to an image with another libc.
SELECT quote_ident(datname) AS name, datcollversion AS recorded, pg_database_collation_actual_version(oid) AS actual
  FROM pg_database
 WHERE datname = current_database() AND datcollversion IS NOT NULL
   AND datcollversion IS DISTINCT FROM pg_database_collation_actual_version(oid);

-- name: folded_words
-- exempt: touches no table. What text search makes of capitals, a Cyrillic one and Latin ones.
SELECT tsvector_to_array(to_tsvector('pg_catalog.simple', chr(1046) || ' INFO')) AS words;

-- name: unnumbered_tables
-- exempt: reads the catalogue only. As after `pg_restore --table`, which restores neither a sequence nor what leads to it.
SELECT name, made
  FROM (VALUES ('conversations', 'BY DEFAULT'), ('memory_entries', 'BY DEFAULT'), ('memory_history', 'ALWAYS'),
               ('hermes_maintenance', 'ALWAYS')) AS ours (name, made)
  JOIN pg_attribute ON attrelid = to_regclass(name) AND attname = 'id' AND attidentity = '' AND NOT atthasdef
 ORDER BY 1;

-- name: texts_with_vectors
-- exempt: a few of the oldest and of the newest texts, whichever theme they are in, to embed them again.
(SELECT content, embedding::real[] AS vector FROM (SELECT content, embedding FROM memory_entries ORDER BY id LIMIT 50) AS oldest
  WHERE embedding IS NOT NULL AND octet_length(content) <= %(bytes)s LIMIT 2)
UNION
(SELECT content, embedding::real[] FROM (SELECT content, embedding FROM memory_entries ORDER BY id DESC LIMIT 50) AS newest
  WHERE embedding IS NOT NULL AND octet_length(content) <= %(bytes)s LIMIT 2)
UNION
(SELECT content, embedding::real[] FROM (SELECT content, embedding FROM conversations ORDER BY id LIMIT 50) AS oldest
  WHERE embedding IS NOT NULL AND octet_length(content) <= %(bytes)s LIMIT 2)
UNION
(SELECT content, embedding::real[] FROM (SELECT content, embedding FROM conversations ORDER BY id DESC LIMIT 50) AS newest
  WHERE embedding IS NOT NULL AND octet_length(content) <= %(bytes)s LIMIT 2);
