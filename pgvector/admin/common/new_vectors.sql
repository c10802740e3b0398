-- Statements for a change of the embedding model: new vectors are stored beside the old ones and then replace them. For
-- an administrator. {rows}, {chunks} and the like are the names of one pair of tables, its columns and its indexes.

-- name: dependents_of_vectors
-- exempt: reads the catalogue only. Finds views and other objects that would prevent the switch, before the first text
-- is embedded.
SELECT DISTINCT rule.ev_class::regclass::text AS name
  FROM pg_depend AS d JOIN pg_rewrite AS rule ON rule.oid = d.objid
  LEFT JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
 WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
   AND (d.refobjid IN ('memory_chunks'::regclass, 'conversation_chunks'::regclass)
        OR d.refobjid IN ('memory_entries'::regclass, 'conversations'::regclass) AND a.attname IN ('embedding', 'sig', 'code'))
 ORDER BY 1;

-- name: begin_reembed
-- exempt: only the catalogue changes. Every doctor can read it.
CREATE TABLE hermes_reembed (
    model text NOT NULL, dims integer NOT NULL, document_prefix text NOT NULL, query_prefix text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(), hnsw text[]);
GRANT SELECT ON hermes_reembed TO PUBLIC;

-- name: note_reembed
-- exempt: the models' names only.
INSERT INTO hermes_reembed (model, dims, document_prefix, query_prefix, hnsw)
VALUES (%(model)s, %(dims)s, %(document_prefix)s, %(query_prefix)s, %(hnsw)s);

-- name: hnsw_before
-- exempt: the names of indexes. A change that an older version began tells of none.
SELECT to_jsonb(begun) -> 'hnsw' AS names FROM hermes_reembed AS begun;

-- name: end_reembed
-- exempt: only the catalogue changes.
DROP FUNCTION IF EXISTS hermes_keep_next();
DROP TABLE hermes_reembed;

-- name: define_keep_next
-- exempt: of a row's own theme, or of the theme it was moved to.
-- The function has its owner's rights, because the agents' role has none on these tables yet.
CREATE OR REPLACE FUNCTION hermes_keep_next() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        -- Any role can set this setting, so chunks only follow a row that is in the other theme with the same text.
        IF current_setting('hermes_pgvector.moved_from', true) = OLD.agent_identity THEN
            EXECUTE format('UPDATE %1$I SET agent_identity = $1 WHERE agent_identity = $2 AND row_id = $3 '
                           'AND EXISTS (SELECT FROM %2$I WHERE agent_identity = $1 AND id = $3 AND content = $4) '
                           'AND NOT EXISTS (SELECT FROM %1$I WHERE agent_identity = $1 AND row_id = $3)', TG_ARGV[0], TG_TABLE_NAME)
              USING current_setting('hermes_pgvector.moved_to', true), OLD.agent_identity, OLD.id, OLD.content;
        END IF;
        EXECUTE format('DELETE FROM %I WHERE agent_identity = $1 AND row_id = $2', TG_ARGV[0])
          USING OLD.agent_identity, OLD.id;
    ELSIF NEW.content IS DISTINCT FROM OLD.content THEN
        EXECUTE format('DELETE FROM %I WHERE agent_identity = $1 AND row_id = $2', TG_ARGV[0])
          USING OLD.agent_identity, OLD.id;
        EXECUTE format('UPDATE %I SET embedding_next = NULL, sig_next = NULL, code_next = NULL '
                       'WHERE agent_identity = $1 AND id = $2', TG_TABLE_NAME)
          USING NEW.agent_identity, NEW.id;
    ELSE
        EXECUTE format('UPDATE %I SET agent_identity = $3 WHERE agent_identity = $1 AND row_id = $2', TG_ARGV[0])
          USING OLD.agent_identity, OLD.id, NEW.agent_identity;
    END IF;
    RETURN NULL;
END $$;
-- The function finds our tables whatever the agent's session contains, above all a temporary table of the same name;
-- and nobody can have it run for a table of his own.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION hermes_keep_next() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $$;
REVOKE ALL ON FUNCTION hermes_keep_next() FROM PUBLIC;

-- name: make_room_for_vectors
-- exempt: only the catalogue changes. The HNSW index of the old vectors is dropped first: every row is written once
-- more, and each update of that index would cost more than the embedding. Meanwhile searches use the signatures.
ALTER TABLE {rows} ADD COLUMN embedding_next vector({dims}), ADD COLUMN sig_next bit({dims}),
  ADD COLUMN code_next bit({code_bits});
CREATE TABLE {chunks_next} (
    row_id bigint NOT NULL, part integer NOT NULL CHECK (part > 0), agent_identity text NOT NULL,
    first_char integer NOT NULL, embedding vector({dims}) {always}, sig bit({dims}) NOT NULL, code bit({code_bits}),
    CONSTRAINT {chunks_next_key} PRIMARY KEY (row_id, part, agent_identity))
  WITH (autovacuum_vacuum_insert_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0.02);
-- Not BEFORE UPDATE, for the reason given in the migration.
CREATE TRIGGER hermes_keep_next AFTER UPDATE OF content, agent_identity ON {rows} FOR EACH ROW
  WHEN (NEW.content IS DISTINCT FROM OLD.content OR NEW.agent_identity IS DISTINCT FROM OLD.agent_identity)
  EXECUTE FUNCTION hermes_keep_next({chunks_next_name});
CREATE TRIGGER hermes_drop_next AFTER DELETE ON {rows} FOR EACH ROW
  EXECUTE FUNCTION hermes_keep_next({chunks_next_name});
DROP INDEX IF EXISTS {embedding_index}, {full_index};
-- Objects that an administrator creates get the owner of the tables.
DO $$
DECLARE
    holder text := (SELECT relowner::regrole::text FROM pg_class WHERE oid = {rows_name}::regclass);
BEGIN
    EXECUTE format('ALTER TABLE %I OWNER TO %s', {chunks_next_name}, holder);
    EXECUTE format('ALTER FUNCTION hermes_keep_next() OWNER TO %s', holder);
END $$;

-- name: last_id_of
-- exempt: the number of a row only.
SELECT max(id) AS id FROM {rows};

-- name: row_without_next
-- exempt: the number of a row only.
SELECT id FROM {rows} WHERE id > %(after)s AND id <= %(last)s AND embedding_next IS NULL ORDER BY id LIMIT 1;

-- name: count_next
-- exempt: counts for the operator.
SELECT count(embedding_next) AS done, count(*) AS total FROM {rows};

-- name: rows_without_next
-- exempt: every theme's texts go to the new model.
SELECT id, agent_identity AS theme, content FROM {rows}
 WHERE id >= %(first)s AND id < %(end)s AND embedding_next IS NULL ORDER BY id;

-- name: clear_next_chunks
-- exempt: of one row, in its theme.
DELETE FROM {chunks_next} WHERE agent_identity = %(theme)s AND row_id = %(id)s;

-- name: fill_next
-- exempt: of one row, in its theme.
WITH filled AS (
    UPDATE {rows} SET embedding_next = %(embedding)s, sig_next = binary_quantize(%(embedding)s),
           code_next = hermes_code(%(embedding)s)
     WHERE agent_identity = %(theme)s AND id = %(id)s AND content = %(content)s
    RETURNING id, agent_identity)
INSERT INTO {chunks_next} (row_id, part, agent_identity, first_char, embedding, sig, code)
SELECT filled.id, chunk.part, filled.agent_identity, chunk.first_char, chunk.embedding, binary_quantize(chunk.embedding),
       hermes_code(chunk.embedding)
  FROM filled
 CROSS JOIN unnest(%(first_chars)s::integer[], %(embeddings)s::vector[])
       WITH ORDINALITY AS chunk(first_char, embedding, part);

-- name: index_hnsw
-- exempt: only the catalogue changes.
CREATE INDEX CONCURRENTLY IF NOT EXISTS {index} ON {rows} USING hnsw ({column} bit_hamming_ops)
  WITH (m = 16, ef_construction = 64);

-- name: index_hnsw_full
-- exempt: only the catalogue changes.
CREATE INDEX CONCURRENTLY IF NOT EXISTS {index} ON {rows} USING hnsw (embedding vector_cosine_ops)
  WITH (m = 16, ef_construction = 64);

-- name: index_theme_sig_next
-- exempt: only the catalogue changes.
CREATE INDEX CONCURRENTLY {index} ON {rows} (agent_identity) INCLUDE (sig_next, id)
  WHERE code_next IS NULL AND sig_next IS NOT NULL;

-- name: index_theme_code_next
-- exempt: only the catalogue changes.
CREATE INDEX CONCURRENTLY {index} ON {rows} (agent_identity) INCLUDE (code_next, id) WHERE code_next IS NOT NULL;

-- name: index_pending_next
-- exempt: only the catalogue changes.
CREATE INDEX CONCURRENTLY {index} ON {rows} (id) WHERE embedding_next IS NULL AND sig_next IS NULL;

-- name: index_chunks_sig_next
-- exempt: only the catalogue changes.
CREATE INDEX CONCURRENTLY {index} ON {chunks_next} (agent_identity) INCLUDE (sig, row_id, part)
  WHERE code IS NULL AND sig IS NOT NULL;

-- name: index_chunks_code_next
-- exempt: only the catalogue changes.
CREATE INDEX CONCURRENTLY {index} ON {chunks_next} (agent_identity) INCLUDE (code, row_id, part) WHERE code IS NOT NULL;

-- name: index_cold_next
-- exempt: only the catalogue changes.
CREATE INDEX CONCURRENTLY {index} ON {rows} (id) INCLUDE (sig_next, role, ts)
  WHERE embedding_next IS NULL AND sig_next IS NOT NULL;

-- name: hide_next
-- exempt: by their state. Superseded and archived memories are not recalled, so no vector index contains them.
UPDATE memory_entries SET sig_next = NULL, code_next = NULL
 WHERE state IN ('superseded', 'archived') AND sig_next IS NOT NULL;
DELETE FROM {chunks_next} AS part USING memory_entries AS hidden
 WHERE hidden.state IN ('superseded', 'archived') AND hidden.agent_identity = part.agent_identity AND hidden.id = part.row_id;

-- name: switch_to_next
-- exempt: only the catalogue changes, however many rows there are.
DROP TRIGGER hermes_keep_next ON {rows};
DROP TRIGGER IF EXISTS hermes_drop_next ON {rows};
DROP TRIGGER hermes_keep_sig ON {rows};
-- Made anew below: a session that has stored rows goes on with the columns' old length for a trigger that it knows.
DROP TRIGGER IF EXISTS hermes_keep_vectors ON {rows};
ALTER TABLE {rows} DROP COLUMN embedding, DROP COLUMN sig, DROP COLUMN code;
ALTER TABLE {rows} RENAME COLUMN embedding_next TO embedding;
ALTER TABLE {rows} RENAME COLUMN sig_next TO sig;
ALTER TABLE {rows} RENAME COLUMN code_next TO code;
CREATE TRIGGER hermes_keep_sig AFTER UPDATE OF embedding ON {rows} FOR EACH ROW
  WHEN (NEW.sig IS DISTINCT FROM binary_quantize(NEW.embedding) OR NEW.code IS DISTINCT FROM hermes_code(NEW.embedding))
  EXECUTE FUNCTION hermes_keep_vectors();
CREATE TRIGGER hermes_keep_vectors BEFORE INSERT ON {rows} FOR EACH ROW
  WHEN (coalesce(current_setting('hermes_pgvector.moved_from', true), '') = '') EXECUTE FUNCTION hermes_keep_vectors();
ALTER INDEX {sig_next_index} RENAME TO {sig_index};
ALTER INDEX {code_next_index} RENAME TO {code_index};
ALTER INDEX {pending_next_index} RENAME TO {pending_index};
ALTER INDEX IF EXISTS {embedding_next_index} RENAME TO {embedding_index};
ALTER INDEX IF EXISTS {cold_next_index} RENAME TO {cold_index};
-- Give the new table of chunks what an operator gave to the old one: rights, and policies of row-level security.
DO $take_over$
DECLARE
    each record;
BEGIN
    FOR each IN SELECT a.privilege_type AS privilege, a.is_grantable,
                       CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
                  FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
                 WHERE c.oid = {chunks_name}::regclass AND a.grantee <> c.relowner LOOP
        EXECUTE format('GRANT %s ON %I TO %s%s', each.privilege, {chunks_next_name}, each.role,
                       CASE WHEN each.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
    FOR each IN SELECT policyname AS name FROM pg_policies
                 WHERE schemaname = current_schema() AND tablename = {chunks_next_name} LOOP
        EXECUTE format('DROP POLICY %I ON %I', each.name, {chunks_next_name});
    END LOOP;
    FOR each IN SELECT p.*, (SELECT string_agg(CASE r WHEN 'public' THEN 'PUBLIC' ELSE quote_ident(r) END, ', ')
                               FROM unnest(p.roles) AS r) AS names
                  FROM pg_policies AS p WHERE schemaname = current_schema() AND tablename = {chunks_name} LOOP
        EXECUTE format('CREATE POLICY %I ON %I AS %s FOR %s TO %s', each.policyname, {chunks_next_name},
                       each.permissive, each.cmd, each.names)
                || coalesce(' USING (' || each.qual || ')', '')
                || coalesce(' WITH CHECK (' || each.with_check || ')', '');
    END LOOP;
    SELECT * INTO each FROM pg_class WHERE oid = {chunks_name}::regclass;
    EXECUTE format('ALTER TABLE %I %s ROW LEVEL SECURITY, %s ROW LEVEL SECURITY', {chunks_next_name},
                   CASE WHEN each.relrowsecurity THEN 'ENABLE' ELSE 'DISABLE' END,
                   CASE WHEN each.relforcerowsecurity THEN 'FORCE' ELSE 'NO FORCE' END);
    EXECUTE format('COMMENT ON TABLE %I IS %L', {chunks_next_name},
                   obj_description({chunks_name}::regclass, 'pg_class'));
END
$take_over$;
DROP TABLE {chunks};
ALTER TABLE {chunks_next} RENAME TO {chunks};
-- For a change that version 1.0 began.
ALTER TABLE {chunks} DROP CONSTRAINT IF EXISTS {chunks_next_reference};
DO $$
DECLARE
    each name;
BEGIN
    FOR each IN SELECT conname FROM pg_constraint WHERE conrelid = {chunks_name}::regclass LOOP
        EXECUTE format('ALTER TABLE %I RENAME CONSTRAINT %I TO %I', {chunks_name}, each,
                       replace(each, {chunks_next_name}, {chunks_name}));
    END LOOP;
END $$;
ALTER INDEX {chunks_sig_next_index} RENAME TO {chunks_sig_index};
ALTER INDEX {chunks_code_next_index} RENAME TO {chunks_code_index};
CREATE TRIGGER hermes_keep_vectors BEFORE INSERT ON {chunks} FOR EACH ROW
  WHEN (coalesce(current_setting('hermes_pgvector.moved_from', true), '') = '') EXECUTE FUNCTION hermes_keep_vectors();

-- name: record_switch
-- exempt: the models' names only.
UPDATE hermes_embedding
   SET model = nullif(%(model)s, ''), document_prefix = %(document_prefix)s, query_prefix = %(query_prefix)s,
       recorded_at = now(), sig_slope = DEFAULT, sig_offset = DEFAULT;

-- name: drop_next
-- exempt: only the catalogue changes.
DROP TRIGGER IF EXISTS hermes_keep_next ON {rows};
DROP TRIGGER IF EXISTS hermes_drop_next ON {rows};
ALTER TABLE {rows} DROP COLUMN embedding_next, DROP COLUMN sig_next, DROP COLUMN code_next;
DROP TABLE {chunks_next};

-- name: lock_stored_tables
-- exempt: only the catalogue changes.
LOCK TABLE conversations, memory_entries, memory_chunks, conversation_chunks IN ACCESS EXCLUSIVE MODE;

-- name: sample_texts
-- exempt: every theme's newest texts, whose embedding times a new model.
(SELECT content FROM conversations ORDER BY id DESC LIMIT %(limit)s)
UNION ALL (SELECT content FROM memory_entries ORDER BY id DESC LIMIT %(limit)s) LIMIT %(limit)s;

-- name: no_vectors
-- exempt: whether there are any, no stored text.
SELECT NOT EXISTS (SELECT FROM memory_entries WHERE sig IS NOT NULL)
   AND NOT EXISTS (SELECT FROM conversations WHERE sig IS NOT NULL) AS empty;
