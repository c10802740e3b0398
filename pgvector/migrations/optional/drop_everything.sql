-- hermes-memory-pgvector, optional: removes every table and function of ours from a database, and all memory with them.
--
-- Nothing brings it back but a backup. Stop the agents first; look beforehand, with the same session rolled back:
--     psql -d hermes_memory -v ON_ERROR_STOP=1 -c BEGIN -f drop_everything.sql -c ROLLBACK
-- Then, as the owner of the tables or a superuser:
--     psql -d hermes_memory -v ON_ERROR_STOP=1 -f drop_everything.sql
--
-- It says by a NOTICE what it drops. Pieces that are missing are passed over, so it may be run again. It is all or
-- nothing, and drops nothing of anybody else: a view of yours on these tables, a table of yours by one of these names, or
-- an agent that holds the tables for longer than ten seconds stops it with an error; so does an upgrade from another
-- program's tables that was not confirmed. What stays: the extensions vector
-- and pg_trgm, which others may use, and the roles with their right to use the schema. For a role that is not needed
-- any more: DROP OWNED BY hermes; DROP ROLE hermes;

DO $drop$
DECLARE
    -- The names that anybody could have chosen come with a column that ours has.
    tables constant text[][] := ARRAY[
        ['memory_chunks', 'agent_identity'], ['conversation_chunks', 'agent_identity'],
        ['memory_chunks_next', 'agent_identity'], ['conversation_chunks_next', 'agent_identity'],
        ['memory_history', 'agent_identity'],
        ['memory_entries', 'tsv'], ['conversations', 'tsv'],
        ['hermes_operations', 'op_id'], ['hermes_tombstones', 'digest'], ['hermes_mirror', 'digest'],
        ['hermes_retention', 'agent_identity'], ['hermes_proposals', 'agent_identity'], ['hermes_read_turns', 'turn_id'],
        ['hermes_maintenance', 'verb'], ['hermes_embedding', 'model'], ['hermes_reembed', 'model'],
        ['hermes_tenants', 'theme'], ['hermes_upgrade', 'opened_at'], ['hermes_migrations', 'checksum']];
    functions constant text[] := '{hermes_keep_vectors,hermes_keep_chunks,hermes_keep_next,hermes_note_memory,
        hermes_drop_chunks,hermes_drop_proposals,hermes_admit_owners,hermes_move_history,hermes_keep_facts,
        hermes_search_vector,hermes_lexemes,hermes_code,hermes_theme_lexeme,hermes_folded,hermes_digest,
        hermes_memories_with,hermes_turns_with,hermes_searched_themes,hermes_words_in,hermes_turns_like,
        hermes_expected_rows,hermes_is_own_row,hermes_hide_statistics,hermes_apply_row_security,hermes_open_to,
        hermes_grant_themes,hermes_revoke_themes,hermes_withdraw_rights,hermes_disable_row_security,hermes_theme_tables,
        hermes_themes_of}';
    home   oid := (SELECT c.relnamespace FROM unnest('{hermes_migrations,memory_entries,conversations}'::text[]) AS t
                     JOIN pg_class AS c ON c.oid = to_regclass(t) LIMIT 1);
    found  regclass[] := '{}';
    each   regclass;
    named  record;
    rows   bigint;
    gone   integer := 0;
BEGIN
    -- As a migration: never two at once.
    PERFORM pg_advisory_xact_lock(7310579462), set_config('lock_timeout', '10s', true);
    home := coalesce(home, quote_ident(current_schema())::regnamespace);
    IF to_regclass('hermes_upgrade') IS NOT NULL AND current_setting('hermes_pgvector.undo_upgrade', true) IS DISTINCT FROM 'on' THEN
        RAISE EXCEPTION 'an upgrade awaits confirmation: the tables of before are in the schema hermes_before_upgrade'
            USING HINT = 'first drop them: hermes-pgvector migrate --confirm-upgrade; or have them back in the place of all '
                         'that this script drops: hermes-pgvector migrate --undo-upgrade';
    END IF;
    FOR i IN 1 .. array_length(tables, 1) LOOP
        SELECT c.oid::regclass INTO each FROM pg_class AS c
         WHERE c.relnamespace = home AND c.relname = tables[i][1] AND c.relkind IN ('r', 'p');
        CONTINUE WHEN each IS NULL;
        IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = each AND attname = tables[i][2] AND NOT attisdropped) THEN
            RAISE EXCEPTION 'the table % is not ours: it has no column "%"', each, tables[i][2]
                USING HINT = 'rename it, run this again, and rename it back';
        END IF;
        found := found || each;
    END LOOP;
    FOREACH each IN ARRAY found LOOP
        -- The owner may be held back by a policy of row-level security, and would count nothing.
        SELECT reltuples::bigint INTO rows FROM pg_class WHERE oid = each;
        RAISE NOTICE 'table % (%)', each, CASE WHEN rows < 0 THEN 'its rows were never counted' ELSE format('about %s rows', rows) END;
    END LOOP;
    IF found <> '{}' THEN
        -- Together, since they refer to each other; without CASCADE, since what else refers to them is not ours.
        EXECUTE 'DROP TABLE ' || (SELECT string_agg(t::text, ', ') FROM unnest(found) AS t);
    END IF;
    -- Those that others are made of go last.
    FOR i IN 1 .. array_length(functions, 1) LOOP
        FOR named IN SELECT oid::regprocedure::text AS name FROM pg_proc WHERE pronamespace = home AND proname = functions[i] LOOP
            EXECUTE format('DROP FUNCTION %s', named.name);
            RAISE NOTICE 'function %', named.name;
            gone := gone + 1;
        END LOOP;
    END LOOP;
    RAISE NOTICE '% tables and % functions are gone from the schema %', coalesce(array_length(found, 1), 0), gone, home::regnamespace;
END
$drop$;
