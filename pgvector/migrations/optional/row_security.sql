-- hermes-memory-pgvector, optional: themes enforced by Postgres itself, with row-level security.
--
-- Run it as an administrator of the database, the owner of the tables or a superuser, in either way:
--     hermes-pgvector tenants enable --admin-dsn "dbname=hermes_memory user=postgres"
--     psql -d hermes_memory -f row_security.sql
-- Then every role has the themes that it was granted, and no other:
--     SELECT hermes_grant_themes('tenant_marketing', ARRAY['marketing']);      -- ARRAY['*']: every theme
--     SELECT hermes_revoke_themes('tenant_marketing', ARRAY['marketing']);     -- or NULL: all it has
--     SELECT role, theme FROM hermes_tenants;
--     SELECT hermes_disable_row_security();
-- The first time, roles that may write already are granted every theme: nothing changes for them. Running it again
-- brings tables, functions and policies of a newer version under the same rules.

BEGIN;
SELECT pg_advisory_xact_lock(7310579462);
SET LOCAL client_min_messages = warning;

DO $check$
BEGIN
    IF to_regclass('memory_entries') IS NULL THEN
        RAISE EXCEPTION 'the memory tables are missing' USING HINT = 'run hermes-pgvector migrate first';
    END IF;
END
$check$;

-- By number, not by name: a role that is dropped and made again begins with nothing. Nobody but the owner has rights.
CREATE TABLE IF NOT EXISTS hermes_tenants (
    role  regrole NOT NULL,
    theme text NOT NULL,
    PRIMARY KEY (role, theme)
);
COMMENT ON TABLE hermes_tenants IS 'row-level security: the themes of each role; * is every theme';
REVOKE ALL ON hermes_tenants FROM PUBLIC;

-- The themes of a role and of those whose rights it inherits; {*}: every theme. Who asks must be that role, or be free
-- to become it: a function of another's, run with its owner's rights, gets nothing of the session's.
CREATE OR REPLACE FUNCTION hermes_themes_of(caller name) RETURNS text[]
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SECURITY DEFINER
AS $themes$
DECLARE
    self  constant oid := to_regrole(quote_ident(caller));
    found text[];
BEGIN
    IF caller <> session_user AND NOT pg_has_role(session_user, caller,
            CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END) THEN
        RETURN '{}';
    END IF;
    -- Asked for by each table of each statement: however many tenants there are, the usual one has no other role's rights.
    IF EXISTS (SELECT FROM pg_auth_members WHERE member = self) THEN
        found := ARRAY(WITH RECURSIVE held(role) AS (
                           SELECT self UNION SELECT m.roleid FROM held JOIN pg_auth_members AS m ON m.member = held.role)
                       SELECT DISTINCT t.theme FROM held JOIN hermes_tenants AS t ON t.role = held.role
                        WHERE pg_has_role(self, held.role, 'USAGE'));
    ELSE
        found := ARRAY(SELECT t.theme FROM hermes_tenants AS t WHERE t.role = self);
    END IF;
    RETURN CASE WHEN '*' = ANY (found) THEN ARRAY['*'] ELSE found END;
END
$themes$;

-- Under a policy Postgres uses no index for conditions that may tell of rows they turn down; words and digests of texts
-- are such. These functions ask the index on behalf of a role, and give its own rows only: of one theme where one is
-- wanted, else of all it has.
CREATE OR REPLACE FUNCTION hermes_searched_themes(relation text, wanted text, caller name) RETURNS text[]
    LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $themes$
DECLARE
    themes text[] := coalesce(hermes_themes_of(caller), '{}');
BEGIN
    -- A role keeps its themes while row-level security is off, but not its rights.
    IF themes = '{}' OR NOT has_table_privilege(caller, relation, 'SELECT') THEN
        RETURN '{}';
    END IF;
    RETURN CASE WHEN wanted IS NULL THEN themes WHEN wanted = ANY (themes) OR themes = '{*}' THEN ARRAY[wanted] ELSE '{}' END;
END
$themes$;

-- The themes' lexemes go to the index as well, so that it takes no time by what other themes hold. No word begins with an @:
-- the lexeme of another theme, or the beginning of one, would take time by the number of that theme's rows.
CREATE OR REPLACE FUNCTION hermes_words_in(themes text[], words tsquery) RETURNS tsquery
    LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $words$
DECLARE
    own text[];
BEGIN
    IF themes = '{*}' THEN
        RETURN words;
    END IF;
    own := ARRAY(SELECT hermes_theme_lexeme(theme) FROM unnest(themes) AS theme);
    IF EXISTS (SELECT FROM regexp_matches(words::text, $at$'(@[^']*)'(:\*)?$at$, 'g') AS named
                WHERE named[1] <> ALL (own) OR named[2] IS NOT NULL) THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery FROM unnest(own) AS lexeme) && words;
END
$words$;

CREATE OR REPLACE FUNCTION hermes_memories_with(wanted text, words tsquery, caller name)
    RETURNS TABLE (id bigint, agent_identity text, tsv tsvector, content text, target text, metadata jsonb, updated_at timestamptz)
    LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER ROWS 100
AS $rows$
#variable_conflict use_column
DECLARE
    themes text[] := hermes_searched_themes('memory_entries', wanted, caller);
BEGIN
    IF themes = '{}' THEN
        RETURN;
    END IF;
    words := hermes_words_in(themes, words);
    RETURN QUERY SELECT id, agent_identity, tsv, content, target, metadata, updated_at
                   FROM memory_entries WHERE tsv @@ words AND (agent_identity || '' = ANY (themes) OR themes = '{*}');
END
$rows$;

CREATE OR REPLACE FUNCTION hermes_turns_with(wanted text, words tsquery, caller name)
    RETURNS TABLE (id bigint, agent_identity text, tsv tsvector, content text, session_id text, role text, ts timestamptz)
    LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER ROWS 100
AS $rows$
#variable_conflict use_column
DECLARE
    themes text[] := hermes_searched_themes('conversations', wanted, caller);
BEGIN
    IF themes = '{}' THEN
        RETURN;
    END IF;
    words := hermes_words_in(themes, words);
    RETURN QUERY SELECT id, agent_identity, tsv, content, session_id, role, ts
                   FROM conversations WHERE tsv @@ words AND (agent_identity || '' = ANY (themes) OR themes = '{*}');
END
$rows$;

-- The index that finds a digest in the whole table would tell a role, which may count what is read for it, whether others have
-- a text: one that begins with the theme reads its own rows only. Six bytes of the digest, so that the other does not fit.
CREATE OR REPLACE FUNCTION hermes_turns_like(wanted bytea, caller name) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SECURITY DEFINER ROWS 3
AS $rows$
DECLARE
    themes text[] := hermes_searched_themes('conversations', NULL, caller);
BEGIN
    IF themes = '{*}' THEN
        RETURN QUERY SELECT id FROM conversations WHERE substr(hermes_digest(content), 1, 8) = substr(wanted, 1, 8);
    ELSE
        RETURN QUERY SELECT id FROM conversations  -- without the COLLATE, by that of `caller`, the index would not serve
                      WHERE agent_identity = ANY (themes COLLATE "default") AND substr(hermes_digest(content), 1, 6) = substr(wanted, 1, 6);
    END IF;
END
$rows$;

-- The planner's estimate of a role's rows, of one theme or of all: what it cannot know of a policy while it plans.
CREATE OR REPLACE FUNCTION hermes_expected_rows(relation text, wanted text, caller name) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $plan$
DECLARE
    themes text[];
    plan   json;
BEGIN
    IF relation NOT IN ('memory_entries', 'conversations') THEN
        RAISE EXCEPTION 'hermes_expected_rows knows no table %', relation;
    END IF;
    themes := hermes_searched_themes(relation, wanted, caller);
    -- By the statistics that tell of no theme to anybody who may only explain queries: see hermes_hide_statistics.
    EXECUTE format(CASE WHEN themes = '{*}' THEN 'EXPLAIN (FORMAT JSON) SELECT FROM %I'
                        ELSE 'EXPLAIN (FORMAT JSON) SELECT FROM %I WHERE to_jsonb(agent_identity) = ANY (%L::jsonb[])' END,
                   relation, ARRAY(SELECT to_jsonb(theme) FROM unnest(themes) AS theme)) INTO plan;
    RETURN plan;
END
$plan$;

-- Whether the parts of a long text may belong to this row: those of another theme's row would count for that one.
CREATE OR REPLACE FUNCTION hermes_is_own_row(relation text, row_id bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
AS $own$
BEGIN
    RETURN CASE WHEN relation LIKE 'memory%' THEN EXISTS (SELECT FROM memory_entries AS m WHERE m.id = row_id)
                ELSE EXISTS (SELECT FROM conversations AS c WHERE c.id = row_id) END;
END
$own$;

-- Every table of ours that has themes, and the rights that a role needs there to run an agent.
CREATE OR REPLACE FUNCTION hermes_theme_tables(OUT relation regclass, OUT rights text) RETURNS SETOF record
    LANGUAGE sql STABLE
AS $tables$
    SELECT c.oid::regclass,
           CASE WHEN c.relname IN ('memory_entries', 'conversations', 'memory_chunks', 'conversation_chunks',
                                   'hermes_operations', 'hermes_tombstones', 'hermes_mirror', 'hermes_retention',
                                   'hermes_proposals', 'hermes_read_turns')
                THEN 'SELECT, INSERT, UPDATE, DELETE'
                WHEN c.relname = 'memory_history'
                THEN 'SELECT, DELETE, UPDATE (agent_identity, old_content, old_row), INSERT (agent_identity, memory_id, target, '
                     'action, who, chars, digest, old_theme, old_chars, old_digest, old_content, old_row)'
                -- What a change of the model fills is not the agents' yet.
                WHEN c.relname IN ('memory_chunks_next', 'conversation_chunks_next') THEN NULL
                ELSE 'SELECT, INSERT' END
      FROM pg_class AS c
      JOIN pg_class AS ours ON ours.oid = 'memory_entries'::regclass
      JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'agent_identity' AND NOT a.attisdropped
     WHERE c.relkind IN ('r', 'p') AND c.relnamespace = ours.relnamespace
       -- ALTER TABLE ... OWNER TO may have parted them; others' tables have this column as well.
       AND (c.relowner = ours.relowner
            OR c.relname IN ('conversations', 'memory_chunks', 'conversation_chunks', 'memory_chunks_next',
                             'conversation_chunks_next', 'memory_history', 'hermes_operations', 'hermes_tombstones',
                             'hermes_mirror', 'hermes_retention', 'hermes_proposals', 'hermes_read_turns'))
$tables$;

-- From statistics of what is written, whoever may explain a query could read values of other themes, and how large a theme
-- is. Those of numbers and times stay. How many rows a theme has is asked for as jsonb, whose operators Postgres does not
-- trust with statistics under a policy, as it does those of text.
CREATE OR REPLACE FUNCTION hermes_hide_statistics() RETURNS void
    LANGUAGE plpgsql
AS $hide$
DECLARE
    each   record;
    gone   boolean;
    stay   text[] := '{}';
BEGIN
    FOR each IN SELECT c.oid::regclass AS relation, n.nspname, c.relowner::regrole AS holder,
                       CASE c.relname WHEN 'conversations' THEN 'hermes_turns_by_theme' ELSE 'hermes_memories_by_theme' END AS name
                  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                 WHERE c.oid IN ('conversations'::regclass, 'memory_entries'::regclass) LOOP
        EXECUTE format('CREATE STATISTICS IF NOT EXISTS %I.%I ON (to_jsonb(agent_identity)) FROM %s', each.nspname, each.name,
                       each.relation);
        EXECUTE format('ALTER STATISTICS %I.%I OWNER TO %s', each.nspname, each.name, each.holder);
    END LOOP;
    FOR each IN SELECT t.relation, a.attname, a.attnum FROM hermes_theme_tables() AS t
                  JOIN pg_attribute AS a ON a.attrelid = t.relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> ALL (
                       '{id,row_id,memory_id,part,ts,at,created_at,updated_at,applied_at,removed_at,noted_at,announced_at,
                         begun_at,ended_at,held_until,embed_after,role,target}'::text[])
                 UNION ALL
                SELECT i.indexrelid::regclass, a.attname, a.attnum FROM hermes_theme_tables() AS t
                  JOIN pg_index AS i ON i.indrelid = t.relation AND i.indexprs IS NOT NULL
                  JOIN pg_attribute AS a ON a.attrelid = i.indexrelid AND i.indkey[a.attnum - 1] = 0 LOOP
        EXECUTE CASE (SELECT relkind FROM pg_class WHERE oid = each.relation)
                WHEN 'i' THEN format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS 0', each.relation, each.attnum)
                ELSE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0', each.relation, each.attname) END;
        IF to_regprocedure('pg_clear_attribute_stats(text,text,text,boolean)') IS NOT NULL THEN
            EXECUTE 'SELECT pg_clear_attribute_stats(n.nspname, c.relname, $1, false) '
                    'FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = $2'
              USING each.attname::text, each.relation;
        ELSIF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
            DELETE FROM pg_statistic AS s USING pg_attribute AS a
             WHERE a.attrelid = each.relation AND a.attname = each.attname
               AND s.starelid = a.attrelid AND s.staattnum = a.attnum;
        ELSIF (SELECT reltuples FROM pg_class WHERE oid = each.relation) > 0 THEN
            stay := stay || each.relation::text;
        END IF;
    END LOOP;
    IF stay <> '{}' THEN
        RAISE WARNING 'statistics of % stay as they are: before Postgres 18 only a superuser can remove them',
            (SELECT string_agg(DISTINCT name, ', ') FROM unnest(stay) AS name);
    END IF;
END
$hide$;

-- Makes tables, policies and rights what hermes_tenants says.
CREATE OR REPLACE FUNCTION hermes_apply_row_security() RETURNS void
    LANGUAGE plpgsql
AS $apply$
DECLARE
    -- Without the COLLATE, which current_user makes necessary, no index would serve. That one does keeps a query for
    -- another theme from reading, and so from counting, anything: two different themes for one index are none.
    own    constant text := 'agent_identity = ANY ((SELECT hermes_themes_of(current_user) COLLATE "default")::text[])';
    free   text := (SELECT string_agg(format('%I', r.rolname), ', ') FROM hermes_tenants AS t
                      JOIN pg_roles AS r ON r.oid = t.role WHERE t.theme = '*');
    each   record;
    tenant record;
BEGIN
    DELETE FROM hermes_tenants WHERE role::oid NOT IN (SELECT oid FROM pg_roles);
    FOR each IN SELECT relation, rights, true AS themed FROM hermes_theme_tables()
                UNION ALL SELECT 'hermes_embedding'::regclass, 'SELECT, UPDATE', false LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', each.relation);
        EXECUTE format('DROP POLICY IF EXISTS hermes_all_themes ON %s', each.relation);
        EXECUTE format('DROP POLICY IF EXISTS hermes_own_themes ON %s', each.relation);
        EXECUTE format('DROP POLICY IF EXISTS hermes_first_model ON %s', each.relation);
        IF free IS NOT NULL THEN
            -- A policy that is always true leaves a statement's plan as it is.
            EXECUTE format('CREATE POLICY hermes_all_themes ON %s TO %s USING (true) WITH CHECK (true)', each.relation, free);
        END IF;
        IF each.themed THEN
            EXECUTE format('CREATE POLICY hermes_own_themes ON %s USING (%s) WITH CHECK (%s)', each.relation, own,
                           own || CASE WHEN each.relation::text ~ '_chunks(_next)?"?$'
                                       THEN format(' AND hermes_is_own_row(%L, row_id)', each.relation::text) ELSE '' END);
        ELSE
            -- The name of the model is everybody's to read, and to write only while there is none.
            EXECUTE format('CREATE POLICY hermes_own_themes ON %s FOR SELECT USING (true)', each.relation);
            EXECUTE format('CREATE POLICY hermes_first_model ON %s FOR UPDATE USING (model IS NULL) WITH CHECK (model IS NOT NULL)',
                           each.relation);
        END IF;
        FOR tenant IN SELECT DISTINCT r.rolname FROM hermes_tenants AS t JOIN pg_roles AS r ON r.oid = t.role
                       WHERE t.theme <> '*' LOOP
            IF each.rights IS NOT NULL THEN
                EXECUTE format('GRANT %s ON %s TO %I', each.rights, each.relation, tenant.rolname);
            END IF;
        END LOOP;
    END LOOP;
    FOR tenant IN SELECT DISTINCT r.oid, r.rolname FROM hermes_tenants AS t JOIN pg_roles AS r ON r.oid = t.role
                   WHERE t.theme <> '*' LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I',
                       (SELECT relnamespace::regnamespace FROM pg_class WHERE oid = 'memory_entries'::regclass), tenant.rolname);
        EXECUTE format('GRANT SELECT ON hermes_migrations TO %I', tenant.rolname);
        EXECUTE format('GRANT USAGE ON SEQUENCE memory_entries_id_seq, conversations_id_seq TO %I', tenant.rolname);
        -- The log of operators names the themes of others. A role that had every theme could read it.
        IF NOT EXISTS (SELECT FROM hermes_tenants AS t WHERE t.role = tenant.oid AND t.theme = '*') THEN
            EXECUTE format('REVOKE ALL ON hermes_maintenance FROM %I', tenant.rolname);
        END IF;
    END LOOP;
    PERFORM hermes_hide_statistics();
END
$apply$;

-- Where a role may create objects that take the place of ours, or become one who may: beside our tables or pgvector, or in a
-- schema of its own that is another role's by name; and what to do about it. Null: nowhere. An operator there that fits
-- better than Postgres' own is what policies, agents and administrators call.
CREATE OR REPLACE FUNCTION hermes_open_to(who oid, OUT place text, OUT remedy text)
    LANGUAGE sql STABLE
AS $open$
    SELECT format('%s "%s"', lower(o.kind), o.name),
           CASE WHEN pg_has_role(who, o.owner, 'MEMBER') THEN 'it has the rights of its owner: use another role'
                ELSE format('take that from it first: REVOKE CREATE ON %s %I FROM %s', o.kind, o.name,
                            string_agg(DISTINCT coalesce(quote_ident(r.rolname), 'PUBLIC'), ', ')) END
      FROM (SELECT 'SCHEMA' AS kind, nspname AS name, nspowner AS owner, nspacl AS acl FROM pg_namespace
             WHERE oid IN (SELECT relnamespace FROM pg_class WHERE oid = 'memory_entries'::regclass
                           UNION ALL SELECT extnamespace FROM pg_extension WHERE extname = 'vector')
             UNION ALL
            SELECT 'DATABASE', datname, datdba, datacl FROM pg_database WHERE datname = current_database()) AS o
      LEFT JOIN LATERAL aclexplode(o.acl) AS a ON a.privilege_type = 'CREATE'
      LEFT JOIN pg_roles AS r ON r.oid = a.grantee
     WHERE pg_has_role(who, o.owner, 'MEMBER') OR a.grantee = 0 OR pg_has_role(who, r.oid, 'MEMBER')
     GROUP BY o.kind, o.name, o.owner
     LIMIT 1
$open$;

CREATE OR REPLACE FUNCTION hermes_grant_themes(grantee text, themes text[]) RETURNS void
    LANGUAGE plpgsql
AS $grant$
DECLARE
    found  pg_roles := (SELECT r FROM pg_roles AS r WHERE r.rolname = grantee);
    owner  oid := (SELECT relowner FROM pg_class WHERE oid = 'memory_entries'::regclass);
    holder text;
    beside record;
BEGIN
    IF found.rolname IS NULL THEN
        RAISE EXCEPTION 'the role "%" does not exist', grantee
            USING HINT = format('create it first: CREATE ROLE %I LOGIN PASSWORD ''...''', grantee);
    END IF;
    IF coalesce(cardinality(themes), 0) = 0 OR EXISTS (SELECT FROM unnest(themes) AS t WHERE t IS NULL OR t = '') THEN
        RAISE EXCEPTION 'name at least one theme for the role "%"', grantee;
    END IF;
    IF '*' <> ALL (themes) THEN
        IF found.rolsuper OR found.rolbypassrls THEN
            RAISE EXCEPTION 'the role "%" passes every policy', grantee
                USING HINT = format('take that from it first: ALTER ROLE %I NOSUPERUSER NOBYPASSRLS', grantee);
        END IF;
        SELECT r.rolname INTO holder FROM pg_roles AS r
         WHERE pg_has_role(grantee, r.oid, 'MEMBER')
           AND (r.oid = owner OR r.rolsuper OR r.rolbypassrls
                OR EXISTS (SELECT FROM hermes_tenants AS t WHERE t.role = r.oid AND t.theme = '*'))
         LIMIT 1;
        IF holder = grantee THEN
            RAISE EXCEPTION 'the role "%" has every theme', grantee
                USING HINT = CASE WHEN found.oid = owner THEN 'it owns the tables: use another role'
                                  ELSE format('take that from it first: hermes-pgvector tenants revoke %s --yes, or hermes_revoke_themes(%L, NULL)',
                                              grantee, grantee) END;
        ELSIF holder IS NOT NULL THEN
            RAISE EXCEPTION 'the role "%" is a member of "%", which no policy holds back', grantee, holder
                USING HINT = format('take it out first: REVOKE %I FROM %I', holder, grantee);
        END IF;
        SELECT * INTO beside FROM hermes_open_to(found.oid);
        IF beside.place IS NOT NULL THEN
            RAISE EXCEPTION 'the role "%" may create objects in the %, which could take the place of ours',
                grantee, beside.place USING HINT = beside.remedy;
        END IF;
    END IF;
    INSERT INTO hermes_tenants SELECT found.oid::regrole, t FROM unnest(themes) AS t ON CONFLICT DO NOTHING;
    PERFORM hermes_apply_row_security();
END
$grant$;

-- Takes themes (NULL: all) from a role; with the last one go its rights on the tables.
CREATE OR REPLACE FUNCTION hermes_revoke_themes(grantee text, themes text[]) RETURNS integer
    LANGUAGE plpgsql
AS $revoke$
DECLARE
    who  oid := (SELECT r.oid FROM pg_roles AS r WHERE r.rolname = grantee);
    gone integer;
BEGIN
    IF who IS NULL THEN
        RAISE EXCEPTION 'the role "%" does not exist', grantee;
    END IF;
    IF who = (SELECT relowner FROM pg_class WHERE oid = 'memory_entries'::regclass) THEN
        RAISE EXCEPTION 'the role "%" owns the tables: without every theme it could not maintain them', grantee;
    END IF;
    DELETE FROM hermes_tenants WHERE role = who AND (themes IS NULL OR theme = ANY (themes));
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF NOT EXISTS (SELECT FROM hermes_tenants WHERE role = who) THEN
        PERFORM hermes_withdraw_rights(grantee);
    END IF;
    PERFORM hermes_apply_row_security();
    RETURN gone;
END
$revoke$;

CREATE OR REPLACE FUNCTION hermes_withdraw_rights(grantee text) RETURNS void
    LANGUAGE plpgsql
AS $withdraw$
DECLARE
    each regclass;
BEGIN
    FOR each IN SELECT relation FROM hermes_theme_tables()
                UNION ALL SELECT unnest('{hermes_embedding,hermes_migrations,hermes_maintenance}'::regclass[]) LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %I', each, grantee);
    END LOOP;
    EXECUTE format('REVOKE ALL ON SEQUENCE memory_entries_id_seq, conversations_id_seq FROM %I', grantee);
END
$withdraw$;

-- Policies go, and with them the rights of every role that had some themes only; who has which is kept for the next time.
CREATE OR REPLACE FUNCTION hermes_disable_row_security() RETURNS void
    LANGUAGE plpgsql
AS $disable$
DECLARE
    each record;
BEGIN
    FOR each IN SELECT DISTINCT r.rolname FROM hermes_tenants AS t JOIN pg_roles AS r ON r.oid = t.role
                 WHERE NOT EXISTS (SELECT FROM hermes_tenants AS f WHERE f.role = t.role AND f.theme = '*') LOOP
        PERFORM hermes_withdraw_rights(each.rolname);
    END LOOP;
    FOR each IN SELECT relation FROM hermes_theme_tables() UNION ALL SELECT 'hermes_embedding'::regclass LOOP
        EXECUTE format('DROP POLICY IF EXISTS hermes_all_themes ON %s', each.relation);
        EXECUTE format('DROP POLICY IF EXISTS hermes_own_themes ON %s', each.relation);
        EXECUTE format('DROP POLICY IF EXISTS hermes_first_model ON %s', each.relation);
        EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY', each.relation);
    END LOOP;
    DROP INDEX IF EXISTS conversations_theme_digest_idx;
    DROP INDEX IF EXISTS memory_history_removed_idx;
    CREATE INDEX memory_history_removed_idx ON memory_history (digest) WHERE old_row IS NOT NULL;
    FOR each IN SELECT t.relation, a.attname FROM hermes_theme_tables() AS t
                  JOIN pg_attribute AS a ON a.attrelid = t.relation AND a.attstattarget = 0 AND a.attnum > 0 AND NOT a.attisdropped
                   AND a.attname <> ALL ('{content,metadata,tsv,who,old_content,old_row}'::text[]) LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS -1', each.relation, each.attname);
    END LOOP;
    FOR each IN SELECT n.nspname, s.stxname AS name FROM pg_statistic_ext AS s JOIN pg_namespace AS n ON n.oid = s.stxnamespace
                 WHERE s.stxrelid IN ('conversations'::regclass, 'memory_entries'::regclass)
                   AND s.stxname IN ('hermes_turns_by_theme', 'hermes_memories_by_theme') LOOP
        EXECUTE format('DROP STATISTICS %I.%I', each.nspname, each.name);
    END LOOP;
END
$disable$;

DO $enable$
DECLARE
    home constant text := (SELECT n.nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                            WHERE c.oid = 'memory_entries'::regclass);
    each record;
BEGIN
    -- Whatever the session of the caller holds, these find our tables and no others.
    FOR each IN SELECT p.oid::regprocedure AS name, p.prosecdef FROM pg_proc AS p
                 WHERE p.pronamespace = quote_ident(home)::regnamespace AND p.proname = ANY (
                     '{hermes_themes_of,hermes_searched_themes,hermes_words_in,hermes_memories_with,hermes_turns_with,
                       hermes_turns_like,hermes_expected_rows,hermes_theme_tables,hermes_is_own_row,
                       hermes_hide_statistics,hermes_apply_row_security,hermes_open_to,hermes_grant_themes,
                       hermes_revoke_themes,hermes_withdraw_rights,hermes_disable_row_security}'::text[]) LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', each.name, home);
        IF NOT each.prosecdef AND each.name::text !~ 'hermes_is_own_row' THEN
            EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', each.name);
        END IF;
    END LOOP;
    INSERT INTO hermes_tenants
    SELECT DISTINCT c.relowner::regrole, '*' FROM hermes_theme_tables() AS t JOIN pg_class AS c ON c.oid = t.relation
    ON CONFLICT DO NOTHING;
    IF NOT (SELECT relrowsecurity FROM pg_class WHERE oid = 'conversations'::regclass) THEN
        INSERT INTO hermes_tenants
        SELECT DISTINCT r.oid::regrole, '*'
          FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS a JOIN pg_roles AS r ON r.oid = a.grantee
         WHERE c.oid = 'memory_entries'::regclass AND a.privilege_type = 'INSERT'
           AND NOT EXISTS (SELECT FROM hermes_tenants AS t WHERE t.role = r.oid)
        ON CONFLICT DO NOTHING;
    END IF;
    PERFORM hermes_apply_row_security();
END
$enable$;

COMMIT;

-- The indexes after the policies, which hold up everybody while they change: these hold up those who write, for as long as it
-- takes. One transaction for each table: an agent writes both in one, and a deadlock would begin a long build again.
-- Who looks in all themes for a text that was removed reads the whole of the first, which is small.
BEGIN;
SELECT pg_advisory_xact_lock(7310579462);
SET LOCAL client_min_messages = warning;
DO $removed$
BEGIN
    IF pg_get_indexdef(to_regclass('memory_history_removed_idx'), 1, true) IS DISTINCT FROM 'agent_identity' THEN
        DROP INDEX IF EXISTS memory_history_removed_idx;
        CREATE INDEX memory_history_removed_idx ON memory_history (agent_identity, digest) WHERE old_row IS NOT NULL;
    END IF;
END
$removed$;
COMMIT;

BEGIN;
SELECT pg_advisory_xact_lock(7310579462);
SET LOCAL client_min_messages = warning;
CREATE INDEX IF NOT EXISTS conversations_theme_digest_idx ON conversations (agent_identity, substr(hermes_digest(content), 1, 6));
ALTER INDEX conversations_theme_digest_idx ALTER COLUMN 2 SET STATISTICS 0;
COMMIT;

ANALYZE memory_entries, conversations;
