"""What a tenant with a session of raw SQL can learn of other themes, when Postgres enforces them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

from hermes_memory_pgvector.admin.common import row_security
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.pool import connect
from hermes_memory_pgvector.store.sql import query
from tests.conftest import DIMS
from tests.support.databases import Databases
from tests.support.row_security import let_tenants_in, session
from tests.support.statements import every_statement, package_of

SECRET = "zanzibar"  # stands in the rows of sales only
ROWS = 1000
OWN, OTHERS = ROWS // 10, ROWS - ROWS // 10
_FILLED = {  # rows of marketing and of sales
    "memory_entries": (OWN, OTHERS), "memory_history": (OWN, OTHERS), "conversations": (OWN, OTHERS),
    "memory_chunks": (ROWS // 100,) * 2, "conversation_chunks": (ROWS // 100,) * 2, "hermes_operations": (OWN, OTHERS),
    "hermes_tombstones": (OWN, OTHERS), "hermes_mirror": (OWN, OTHERS), "hermes_retention": (1, 1),
    "hermes_proposals": (OWN, OTHERS), "hermes_read_turns": (OWN, OTHERS),
}  # fmt: skip


@pytest.fixture(scope="module")
def filled(postgres: EmbeddedServer, databases: Databases, migrated_template: str) -> Iterator[str]:
    """An admin's conninfo of a database where marketing has a tenth of the rows and sales the rest, to be copied."""
    let_tenants_in(postgres)
    with databases.copy(migrated_template) as admin_dsn:
        with connect(admin_dsn) as conn:
            fill(conn)
        yield admin_dsn


def fill(conn: psycopg.Connection[Any]) -> None:
    row_security.enable(conn)
    row_security.grant(conn, "tenant_marketing", ["marketing", "ads"])
    row_security.grant(conn, "tenant_sales", ["sales"])
    theme = "CASE WHEN n % 10 = 0 THEN 'marketing' ELSE 'sales' END"
    text = f"'row ' || n || CASE WHEN n % 10 = 0 THEN ' ours' ELSE ' {SECRET}' END"
    rows = f"FROM generate_series(1, {ROWS}) AS n"
    for statement in (
        f"INSERT INTO conversations (session_id, agent_identity, role, content, ts) "
        f"SELECT {theme} || '-' || n / 100, {theme}, 'user', {text}, now() - n * interval '1 minute' {rows}",
        f"INSERT INTO memory_entries (agent_identity, target, content) SELECT {theme}, 'memory', {text} {rows}",
        f"INSERT INTO hermes_operations (agent_identity, op_id) SELECT {theme}, gen_random_uuid() {rows}",
        f"INSERT INTO hermes_tombstones SELECT {theme}, 'memory', hermes_digest({text}) {rows}",
        f"INSERT INTO hermes_mirror SELECT {theme}, 'here', 'memory', hermes_digest({text}), true {rows}",
        *(
            f"INSERT INTO {chunks} SELECT id, 1, agent_identity, 9, v, binary_quantize(v) FROM {rows_of},"
            f" (SELECT array_fill(0.5::real, ARRAY[{DIMS}])::vector AS v) AS made WHERE id % 100 < 2"
            for chunks, rows_of in (("memory_chunks", "memory_entries"), ("conversation_chunks", "conversations"))
        ),
        f"INSERT INTO hermes_proposals (agent_identity, target, content, kind, confidence, sources, said_at)"
        f" SELECT {theme}, 'memory', {text}, 'fact', 1, ARRAY[n], now() {rows}",
        f"INSERT INTO hermes_read_turns (turn_id, agent_identity) SELECT n, {theme} {rows}",
        "INSERT INTO hermes_retention (agent_identity, policy) VALUES ('marketing', '30'), ('sales', '9')",
        "VACUUM ANALYZE",
    ):
        conn.execute(statement.encode())


@pytest.fixture
def shared(databases: Databases, filled: str) -> Iterator[str]:
    """An admin's conninfo of a copy of it."""
    with databases.copy_of(filled) as admin_dsn:
        yield admin_dsn


@pytest.fixture
def tenant(shared: str) -> Iterator[psycopg.Connection[Any]]:
    """A session of marketing's role."""
    with session(shared, "tenant_marketing") as conn:
        yield conn


def _one(conn: psycopg.Connection[Any], statement: str) -> Any:
    row = conn.execute(statement.encode()).fetchone()
    return row[0] if row else None


def _refused(conn: psycopg.Connection[Any], statement: str) -> str:
    """The message with which Postgres refuses a statement for lack of rights."""
    with pytest.raises((pg.InsufficientPrivilege, pg.InvalidParameterValue)) as refusal:
        conn.execute(statement.encode())
    return str(refusal.value)


def _estimate(conn: psycopg.Connection[Any], where: str, table: str = "conversations") -> int:
    plan = _one(conn, f"EXPLAIN (FORMAT JSON) SELECT FROM {table} WHERE {where}")
    return int(plan[0]["Plan"]["Plan Rows"])


def test_need_04_every_table_with_themes_is_enforced_for_its_owner_as_well(shared: str) -> None:
    with connect(shared) as conn:
        conn.execute("CREATE TABLE hermes_later (agent_identity text, note text)")
        assert not row_security.granted(conn).get("tenant_nobody")
        row_security.enable(conn)  # as after an upgrade
        rows = conn.execute(
            "SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity AS forced,"
            " (SELECT count(*) FROM pg_policies AS p WHERE p.tablename = c.relname) AS policies"
            "  FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'agent_identity'"
            " WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace"
        ).fetchall()
    assert {row.relname for row in rows} >= {*_FILLED, "hermes_later"}
    assert all(row.forced and row.policies == 2 for row in rows), rows


@pytest.mark.parametrize("table", _FILLED)
def test_need_04_a_tenant_reads_and_counts_its_own_rows_only(tenant: psycopg.Connection[Any], table: str) -> None:
    assert _one(tenant, f"SELECT count(*) FROM {table}") == _FILLED[table][0]
    assert _one(tenant, f"SELECT string_agg(DISTINCT agent_identity, ',') FROM {table}") == "marketing"
    assert _one(tenant, f"SELECT count(*) FROM {table} WHERE agent_identity = 'sales'") == 0
    with tenant.cursor().copy(f"COPY {table} TO STDOUT".encode()) as copy:
        assert b"sales" not in b"".join(bytes(part) for part in copy)
    tenant.execute("SET row_security = off")
    assert "row-level security" in _refused(tenant, f"SELECT FROM {table}")


@pytest.mark.parametrize("table", _FILLED)
def test_need_04_a_tenant_writes_its_own_rows_only(tenant: psycopg.Connection[Any], shared: str, table: str) -> None:
    for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET agent_identity = 'ads'"):
        done = tenant.execute((statement + " WHERE agent_identity <> 'marketing'").encode())
        assert done.rowcount == 0
    _refused(tenant, f"UPDATE {table} SET agent_identity = 'sales'")
    _refused(tenant, f"TRUNCATE {table}")
    assert tenant.execute(f"DELETE FROM {table}".encode()).rowcount == _FILLED[table][0]
    with connect(shared) as conn:
        left = conn.execute(f"SELECT count(*) AS n FROM {table}".encode()).fetchone()
    assert left is not None and left.n == _FILLED[table][1]


@pytest.mark.parametrize("table", _FILLED)
def test_need_04_no_kind_of_statement_reaches_a_row_of_another_theme(
    tenant: psycopg.Connection[Any], shared: str, table: str
) -> None:
    of_sales = f"SELECT md5(string_agg(t::text, '' ORDER BY t::text)) FROM {table} AS t WHERE agent_identity = 'sales'"
    with connect(shared) as conn:
        before = _one(conn, of_sales)
    for lock in ("UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"):
        locked = tenant.execute(f"SELECT agent_identity FROM {table} FOR {lock}".encode())
        assert {row[0] for row in locked} == {"marketing"}
    for then in ("DELETE", "UPDATE SET agent_identity = 'marketing'", "DO NOTHING"):
        merged = tenant.execute(
            f"MERGE INTO {table} AS t USING (VALUES ('sales')) AS s(theme) ON t.agent_identity = s.theme"
            f" WHEN MATCHED THEN {then}".encode()
        )
        assert merged.rowcount == 0
    with (
        pytest.raises((pg.FeatureNotSupported, pg.InsufficientPrivilege)),
        tenant.cursor().copy(f"COPY {table} FROM STDIN".encode()),
    ):
        pass
    _refused(tenant, f"ALTER TABLE {table} DISABLE TRIGGER ALL")
    with connect(shared) as conn:
        assert _one(conn, of_sales) == before


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("memory_entries", "(id, agent_identity, target, content) VALUES ({id}, '{theme}', 'memory', 'x')"),
        ("conversations", "(id, agent_identity, session_id, role, content) VALUES ({id}, '{theme}', 's', 'user', 'x')"),
        ("hermes_operations", "(op_id, agent_identity) VALUES ((SELECT op FROM known LIMIT 1 OFFSET {id}), '{theme}')"),
        ("hermes_tombstones", "SELECT '{theme}', 'memory', hermes_digest('row {id} zanzibar')"),
        ("hermes_mirror", "SELECT '{theme}', 'here', 'memory', hermes_digest('row {id} zanzibar'), true"),
        ("hermes_retention", "VALUES ('{theme}', '{id}')"),
        ("hermes_read_turns", "VALUES ({id}, '{theme}')"),
        ("hermes_proposals", "(id, agent_identity, target, content, kind, confidence, sources, said_at)"
                             " VALUES ({id}, '{theme}', 'memory', 'x', 'fact', 1, '{{1}}', now())"),
    ],
)  # fmt: skip
def test_need_04_no_key_tells_whether_another_theme_has_it(
    tenant: psycopg.Connection[Any], shared: str, table: str, row: str
) -> None:
    with connect(shared) as conn:
        known = conn.execute("SELECT op_id FROM hermes_operations WHERE agent_identity = 'sales' LIMIT 9").fetchall()
    tenant.execute("CREATE TEMP TABLE known AS SELECT gen_random_uuid() AS op LIMIT 0")
    for each in known:
        tenant.execute("INSERT INTO known VALUES (%s)", each)
    said = {
        _refused(tenant, f"INSERT INTO {table} {row.format(id=number, theme=theme)}{end}")
        for theme in ("sales", "nobodys")
        for number in (1, 3)
        for end in ("", " ON CONFLICT DO NOTHING")
    }
    assert len(said) == 1 and "sales" not in said.pop()
    tenant.execute(f"INSERT INTO {table} {row.format(id=3, theme='ads')}".encode())
    assert _one(tenant, f"SELECT count(*) FROM {table} WHERE agent_identity = 'ads'") == 1


def test_need_04_a_tenant_adds_no_part_to_the_text_of_another_theme(tenant: psycopg.Connection[Any]) -> None:
    for chunks in ("memory_chunks", "conversation_chunks"):
        part = (
            f"INSERT INTO {chunks} SELECT {{}}, 7, 'marketing', 0, v, binary_quantize(v)"
            f" FROM (SELECT array_fill(0.5::real, ARRAY[{DIMS}])::vector AS v) AS made"
        )
        tenant.execute(part.format(10).encode())
        said = {_refused(tenant, part.format(row)) for row in (11, 999_999)}
        assert len(said) == 1, "whether there is such a row"
        assert "row-level security" in _refused(tenant, f"UPDATE {chunks} SET row_id = 11 WHERE row_id = 10")


def test_need_04_no_message_tells_whether_a_row_of_another_theme_exists(tenant: psycopg.Connection[Any]) -> None:
    said = set()
    for text in (f"row 11 {SECRET}", "row of nobody"):
        for end in (
            "",
            " ON CONFLICT DO NOTHING",
            " ON CONFLICT (agent_identity, target, digest) DO UPDATE SET target = 'user'",
        ):
            said.add(
                _refused(
                    tenant,
                    "INSERT INTO memory_entries (agent_identity, target, content) "
                    f"VALUES ('sales', 'memory', '{text}'){end}",
                )
            )
    assert len(said) == 1 and SECRET not in said.pop()
    for number in (1, 10**12):  # a row of another theme has the first one, and none the other
        tenant.execute("INSERT INTO conversations (id, session_id, agent_identity, role, content)"
                       " SELECT %s, 's', 'marketing', 'user', 'x'", [number])  # fmt: skip


def test_need_04_a_function_in_a_condition_sees_no_row_of_another_theme(tenant: psycopg.Connection[Any]) -> None:
    seen: list[str] = []
    tenant.add_notice_handler(lambda notice: seen.append(notice.message_primary or ""))
    tenant.execute(
        "CREATE FUNCTION pg_temp.spy(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001"
        " AS $$BEGIN RAISE NOTICE '%', $1; RETURN true; END$$"
    )
    for statement in (
        "SELECT count(*) FROM conversations WHERE pg_temp.spy(content)",
        "SELECT count(*) FROM conversations WHERE pg_temp.spy(content) AND ts > now() - interval '1 year'",
        "SELECT count(*) FROM memory_entries AS m JOIN conversations AS c USING (content) WHERE pg_temp.spy(content)",
        f"SELECT count(*) FROM conversations WHERE tsv @@ '{SECRET}' AND pg_temp.spy(content)",
        f"SELECT count(*) FROM hermes_turns_with(NULL, '{SECRET}', current_user) WHERE pg_temp.spy(content)",
        f"SELECT count(*) FROM hermes_memories_with('sales', '{SECRET}', current_user) WHERE pg_temp.spy(content)",
    ):
        tenant.execute(statement.encode())
    assert seen and not any(SECRET in text for text in seen)
    count = "SELECT count(*) FROM conversations WHERE 1 / (CASE WHEN content LIKE '%%zanzibar%%' THEN 0 ELSE 1 END) = 1"
    assert _one(tenant, count.replace("%%", "%")) == ROWS // 10, "nothing was divided by zero"


def test_need_04_a_view_a_join_and_a_foreign_key_show_nothing(tenant: psycopg.Connection[Any]) -> None:
    tenant.execute("CREATE TEMP VIEW everything AS SELECT * FROM conversations")
    tenant.execute("CREATE TEMP VIEW barrier WITH (security_invoker) AS SELECT * FROM conversations")
    for view in ("everything", "barrier"):
        assert _one(tenant, f"SELECT count(*) FROM {view}") == ROWS // 10
    join = "generate_series(1, 9000) AS n LEFT JOIN conversations AS c ON c.id = n WHERE c.id IS NOT NULL"
    assert _one(tenant, f"SELECT count(*) FROM {join}") == ROWS // 10
    with pytest.raises(pg.InvalidTableDefinition):  # and a permanent one it may not create
        tenant.execute("CREATE TEMP TABLE probe (id bigint REFERENCES conversations (id))")
    _refused(tenant, "CREATE TABLE probe (id bigint REFERENCES conversations (id))")


@pytest.mark.parametrize(
    "statement",
    [
        "SET ROLE tenant_sales", "SET ROLE hermes", "SET ROLE postgres", "SET SESSION AUTHORIZATION tenant_sales",
        "SELECT set_config('role', 'tenant_sales', false)",
        "SELECT set_config('session_authorization', 'hermes', false)",
        "SELECT * FROM hermes_tenants", "INSERT INTO hermes_tenants VALUES ('tenant_marketing', 'sales')",
        "SELECT hermes_grant_themes('tenant_marketing', '{sales}')", "SELECT hermes_apply_row_security()",
        "SELECT hermes_disable_row_security()", "DROP POLICY hermes_own_themes ON conversations",
        "ALTER TABLE conversations DISABLE ROW LEVEL SECURITY", "GRANT tenant_sales TO tenant_marketing",
        "CREATE POLICY mine ON conversations USING (true)", "ALTER ROLE tenant_marketing BYPASSRLS",
        "CREATE OR REPLACE FUNCTION hermes_themes_of(name) RETURNS text[] LANGUAGE sql AS $$SELECT '{*}'::text[]$$",
        "SELECT last_value FROM conversations_id_seq", "SELECT setval('conversations_id_seq', 1)",
        "SELECT * FROM pg_statistic", "SELECT * FROM hermes_maintenance",
    ],
)  # fmt: skip
def test_need_04_a_tenant_cannot_widen_what_it_may_see(tenant: psycopg.Connection[Any], statement: str) -> None:
    with pytest.raises((pg.InsufficientPrivilege, pg.InvalidParameterValue)):
        tenant.execute(statement.encode())
    assert _one(tenant, "SELECT count(*) FROM conversations") == ROWS // 10


def test_need_04_no_setting_or_object_of_the_session_stands_in_for_ours(tenant: psycopg.Connection[Any]) -> None:
    tenant.execute("CREATE TEMP TABLE hermes_tenants (role regrole, theme text)")
    tenant.execute("INSERT INTO hermes_tenants VALUES ('tenant_marketing', '*'), ('tenant_marketing', 'sales')")
    tenant.execute(
        "CREATE FUNCTION pg_temp.hermes_themes_of(name) RETURNS text[] LANGUAGE sql AS $$SELECT '{*}'::text[]$$"
    )
    tenant.execute("SET search_path = pg_temp, public")
    assert _one(tenant, "SELECT count(*) FROM conversations") == ROWS // 10
    for role in ("tenant_sales", "hermes", "postgres"):
        assert _one(tenant, f"SELECT public.hermes_themes_of('{role}')") == []
        for theme, function in itertools.product(("NULL", "'sales'"), ("hermes_turns_with", "hermes_memories_with")):
            assert _one(tenant, f"SELECT public.{function}({theme}, '{SECRET}', '{role}')") is None
        plan = _one(tenant, f"SELECT public.hermes_expected_rows('conversations', 'sales', '{role}')")
        assert plan[0]["Plan"]["Plan Rows"] == 1
    assert _one(tenant, "SELECT count(*) FROM public.hermes_turns_with(NULL, 'row', current_user)") == OWN
    assert _one(tenant, "SELECT count(*) FROM public.hermes_turns_with('sales', 'row', current_user)") == 0
    digest = f"SELECT public.hermes_turns_like(hermes_digest('row 11 {SECRET}'), current_user)"
    assert _one(tenant, digest) is None


@pytest.mark.parametrize(
    "way", ["", "SET enable_bitmapscan = off", "SET enable_seqscan = off", "SET enable_indexonlyscan = off"]
)
def test_need_04_to_ask_for_another_theme_reads_nothing_that_could_be_counted_or_timed(
    tenant: psycopg.Connection[Any], way: str
) -> None:
    tenant.execute(f"{way}; SET enable_seqscan = off".encode())
    for table in _FILLED:
        # Before 17 a list is no condition of an index that begins with another column; docs/isolation.md tells of it.
        if table.endswith(("_chunks", "_proposals", "_read_turns")) and tenant.info.server_version < 170000:
            continue
        lines = tenant.execute(
            f"EXPLAIN (ANALYZE, BUFFERS OFF) SELECT FROM {table} WHERE agent_identity = 'sales'".encode()
        )
        text = "\n".join(row[0] for row in lines)
        assert "Rows Removed" not in text and not re.search(r"Scan.*actual.*rows=[1-9]", text), text
    for where in (
        "agent_identity = 'sales'",
        "agent_identity IN ('sales', 'hr')",
        "agent_identity BETWEEN 's' AND 't'",
    ):
        for what in ("content", "count(*)", "max(ts)"):
            lines = tenant.execute(
                f"EXPLAIN (ANALYZE, BUFFERS OFF) SELECT {what} FROM conversations WHERE {where}".encode()
            )
            text = "\n".join(row[0] for row in lines)
            assert "Rows Removed" not in text and not re.search(r"Scan.*actual.*rows=[1-9]", text), text


def test_need_04_what_a_session_counts_of_its_reading_tells_of_no_text_of_another_theme(
    tenant: psycopg.Connection[Any], shared: str
) -> None:
    with connect(shared) as conn:
        conn.execute("UPDATE memory_history SET old_row = '{}'")  # as if all had been removed
        conn.execute("VACUUM ANALYZE memory_history")
    fetched = "SELECT sum(idx_tup_fetch + seq_tup_read) FROM pg_stat_xact_all_tables WHERE relname = '{}'"

    def looked_up(text: str, table: str, found: str) -> tuple[int, int]:
        """Return how many rows the lookup of a text gives, and how many it has fetched."""
        with tenant.transaction():
            before = _one(tenant, fetched.format(table)) or 0
            rows = _one(tenant, f"SELECT count(*) FROM {found.format(text)}")
            return rows, _one(tenant, fetched.format(table)) - before

    tenant.execute("DISCARD ALL")
    for where in (
        ("conversations", "hermes_turns_like(hermes_digest('{}'), current_user)"),
        ("memory_history", "memory_history WHERE old_row IS NOT NULL AND digest = substr(hermes_digest('{}'), 1, 8)"),
    ):
        assert looked_up("row 10 ours", *where)[0] == 1
        of_nobody = looked_up("row of nobody", *where)
        assert of_nobody == looked_up(f"row 11 {SECRET}", *where) == (0, 0)


@pytest.mark.parametrize("function", ["hermes_turns_with", "hermes_memories_with"])
def test_need_04_no_word_stands_for_another_theme(tenant: psycopg.Connection[Any], function: str) -> None:
    """The text index knows themes by words of their own; to look these up takes longer the more rows a theme has."""
    for words, rows in (
        ("'row'", OWN), ("'row' & '{marketing}'", OWN), ("!'nobody'", OWN), ("'{sales}'", 0), ("!'{sales}'", 0),
        ("'row' & !'{nobody}'", 0), ("!'@':*", 0), ("'row' | '@0':*", 0), ("'{marketing}':*", 0),
    ):  # fmt: skip
        named = {
            name: _one(tenant, f"SELECT hermes_theme_lexeme('{name}')") for name in ("marketing", "sales", "nobody")
        }
        found = f"SELECT count(*) FROM {function}(NULL, $words${words.format(**named)}$words$, current_user)"
        assert _one(tenant, found) == rows, words


def test_need_04_estimates_tell_of_no_theme_text_word_digest_or_session(tenant: psycopg.Connection[Any]) -> None:
    for known, unknown in (
        ("agent_identity = 'sales'", "agent_identity = 'nobody'"),
        ("agent_identity > 'sales'", "agent_identity > 'z'"),
        ("to_jsonb(agent_identity) = '\"sales\"'", "to_jsonb(agent_identity) = '\"nobody\"'"),
        (f"tsv @@ '{SECRET}'", "tsv @@ 'madagascar'"),
        ("content > 'row 2'", "content > 'row 99'"),
        (f"content = 'row 11 {SECRET}'", "content = 'row of nobody'"),
        ("session_id = 'sales-1'", "session_id = 'nobody-1'"),
        ("session_id > 'sales-1'", "session_id > 'z'"),
        ("substr(hermes_digest(content), 1, 8) < '\\x40'", "substr(hermes_digest(content), 1, 8) < '\\xf0'"),
        ("substr(hermes_digest(content), 1, 6) < '\\x40'", "substr(hermes_digest(content), 1, 6) < '\\xf0'"),
    ):
        assert _estimate(tenant, known) == _estimate(tenant, unknown), known
    for table in _FILLED:
        of_sales, of_nobody = (_estimate(tenant, f"agent_identity = '{theme}'", table) for theme in ("sales", "nobody"))
        assert of_sales == of_nobody, table
    for known, unknown in (
        ("db_role = 'postgres'", "db_role = 'nobody'"),
        ("chars > 4", "chars > 4000"),
        ("digest < '\\x40'", "digest < '\\xf0'"),
    ):
        assert _estimate(tenant, known, "memory_history") == _estimate(tenant, unknown, "memory_history"), known
    expected = _one(tenant, "SELECT hermes_expected_rows('conversations', 'marketing', current_user)")
    assert abs(expected[0]["Plan"]["Plan Rows"] - OWN) < OWN / 2, "what agents need to know of their own themes"
    assert (
        _one(tenant, "SELECT count(*) FROM pg_stats WHERE schemaname = 'public' AND tablename <> 'hermes_migrations'")
        == 0
    )
    assert _one(tenant, "SELECT count(*) FROM pg_stats_ext") == 0
    assert _one(tenant, "SELECT reltuples::integer FROM pg_class WHERE relname = 'conversations'") == ROWS, (
        "all rows: known"
    )


def test_need_04_the_name_of_the_model_is_written_once_only(tenant: psycopg.Connection[Any]) -> None:
    assert tenant.execute("UPDATE hermes_embedding SET model = 'first' WHERE model IS NULL").rowcount == 1
    assert tenant.execute("UPDATE hermes_embedding SET model = 'second'").rowcount == 0
    assert _one(tenant, "SELECT model FROM hermes_embedding") == "first"


def test_need_04_a_role_has_the_themes_of_the_roles_it_belongs_to(shared: str) -> None:
    with connect(shared) as conn:
        conn.execute("GRANT tenant_marketing TO tenant_group")
    try:
        with session(shared, "tenant_group") as conn:
            assert _one(conn, "SELECT count(*) FROM conversations") == ROWS // 10
            conn.execute("SET ROLE tenant_marketing")
            assert _one(conn, "SELECT count(*) FROM conversations") == ROWS // 10
        with session(shared, "tenant_nobody") as conn:
            _refused(conn, "SELECT FROM conversations")
    finally:
        with connect(shared) as conn:
            conn.execute("REVOKE tenant_marketing FROM tenant_group")


def test_need_04_a_role_that_lost_themes_no_longer_reads_what_operators_did(shared: str) -> None:
    with connect(shared) as conn:
        conn.execute(
            "INSERT INTO hermes_maintenance (os_user, host, verb, arguments, counts)"
            " VALUES ('clerk', 'desk', 'rename', '{\"theme\": \"sales\"}', '{}')"
        )
        row_security.grant(conn, "tenant_owner", ["*"])
        conn.execute("GRANT SELECT, INSERT (verb) ON hermes_maintenance TO tenant_owner")
    read = "SELECT verb FROM hermes_maintenance"
    with session(shared, "tenant_owner") as role, connect(shared) as conn:
        row_security.grant(conn, "tenant_owner", ["*"])
        assert _one(role, read) == "rename"
        row_security.revoke(conn, "tenant_owner", [])
        _refused(role, read)
        conn.execute("GRANT SELECT, INSERT (verb) ON hermes_maintenance TO tenant_owner")
        row_security.grant(conn, "tenant_owner", ["marketing"])
        _refused(role, read)
        _refused(role, "INSERT INTO hermes_maintenance (verb) VALUES ('rename')")


def test_need_04_statements_of_a_tenant_leave_nothing_to_a_leaky_index_condition() -> None:
    """Words and digests are looked up on the role's behalf wherever a statement does."""
    for name in every_statement():
        confined = query(name, own_themes=True, package=package_of(name)).decode()
        assert not re.search(r"FROM (?:memory_entries|conversations)\s+WHERE tsv @@", confined), name
        assert "substr(hermes_digest(c.content)" not in confined, name
        assert not name.startswith("estimate_rows") or "hermes_expected_rows" in confined
