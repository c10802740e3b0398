"""HNSW indexes over the rows of one huge theme: built and dropped by an operator, and used by recall of that theme."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector import cli
from hermes_memory_pgvector.admin.common import row_security
from hermes_memory_pgvector.domain.types import Filters, Scope, Store
from hermes_memory_pgvector.store import vector_search
from hermes_memory_pgvector.store.backend import Backend
from hermes_memory_pgvector.store.pipeline import Pipeline
from hermes_memory_pgvector.store.pool import connect
from hermes_memory_pgvector.store.vector_search import VectorSearch, as_sent, own_graph_name
from tests.conftest import DIMS, MakeProvider
from tests.support.databases import Databases
from tests.support.memory import called, runtime_of
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

HUGE = "huge"
ROWS = 5100  # from 5,001 on recall asks whether there is an index
STORES: dict[Store, str] = {"memories": "memory_entries", "turns": "conversations"}
ODD = ("O'Brien's \"Sales\"", "GROSS Ärger", "team 🚀 ''%s''", "a\\b 'c'::text) x", "n" * 200)
TOLD_BY = 20  # scans of an index, with which the command tells what it finds
SCANS = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = %s"


@pytest.fixture(autouse=True)
def configured(home: Path, dsn: str, admin_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_ADMIN_DSN", admin_dsn)
    (home / "config.yaml").write_text(f"plugins: {{pgvector: {{dsn: '{dsn}', dims: {DIMS}}}}}\n")


@pytest.fixture(scope="module")
def once_filled(databases: Databases, migrated_template: str) -> Iterator[str]:
    """An admin's conninfo of a database with one huge theme, a hundred rows of another, and no index of the whole."""
    values = (
        f"SELECT CASE WHEN n > {ROWS} THEN 'small' ELSE '{HUGE}' END, 'Row ' || n,"
        f" (SELECT array_agg(sin(n % 40 * (d + 1)) + random() - 0.5) FROM generate_series(1, {DIMS}) AS d)::vector"
    )
    with databases.copy(migrated_template) as admin_dsn:
        with psycopg.connect(admin_dsn, autocommit=True) as admin:
            for statement in (
                "DROP INDEX conversations_embedding_idx, memory_entries_embedding_idx",
                "SELECT setseed(0.5)",
                "INSERT INTO conversations (agent_identity, content, embedding, session_id, role)"
                f" {values}, 's', 'user' FROM generate_series(1, {ROWS + 100}) AS n",
                "INSERT INTO memory_entries (agent_identity, content, embedding, target)"
                " SELECT agent_identity, content, embedding, 'memory' FROM conversations",
                "VACUUM ANALYZE",
            ):
                admin.execute(statement.encode())
        yield admin_dsn


@pytest.fixture
def admin_dsn(request: pytest.FixtureRequest, databases: Databases, migrated_template: str) -> Iterator[str]:
    """An admin's conninfo of a new database: a copy of that one for a test that asks for `filled`."""
    if "filled" in request.fixturenames:
        source = databases.copy_of(request.getfixturevalue("once_filled"))
    else:
        source = databases.copy(migrated_template)
    with source as made:
        yield made


@pytest.fixture
def filled(admin_dsn: str) -> str:
    """An admin's conninfo of the copy."""
    return admin_dsn


def questions(dsn: str, count: int = 1) -> list[Any]:
    """Vectors of rows of the huge theme, which are near to a fortieth of it."""
    chosen = "SELECT embedding::float4[] FROM conversations WHERE id %% 211 = 0 ORDER BY id LIMIT %s"
    return Database(dsn).column(chosen, count)


@pytest.fixture
def backend(filled: str, make_provider: MakeProvider) -> Iterator[Backend]:
    """The store of an agent with one connection."""
    assert filled
    provider = make_provider({"pool_max_size": 1})
    runtime_of(provider).backend.bring_up()
    yield runtime_of(provider).backend


def index(home: Path, *words: str) -> int:
    return cli.main(["index", *words, "--hermes-home", str(home)])


def found(backend: Backend, store: Store, vector: Sequence[float], *, own_graph: bool, **of: Any) -> list[int]:
    """The ids that the vector leg finds in a theme."""
    pipe = Pipeline()
    scope, filters = Scope("theme", of.pop("theme", HUGE)), Filters(**of)
    with backend.reading(60, pipe):
        search = VectorSearch(pipe, store, scope, filters, as_sent(vector), limit=10, own_graph=own_graph)
        return [each.id for each in search.candidates()]


def test_need_24_an_index_of_one_theme_is_built_shown_and_dropped(
    home: Path, admin_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    database = Database(admin_dsn)
    for theme in ODD:
        database.column(
            "INSERT INTO conversations (session_id, agent_identity, role, content)"
            " VALUES ('s', %s, 'user', 'x') RETURNING id",
            theme,
        )
    for theme in ODD:
        names = [own_graph_name(store, theme) for store in STORES]
        assert index(home, "build", "--theme", theme, "--dry-run", "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["built"], told["to_build"]) == ([], names)
        assert index(home, "build", "--theme", theme) == 0
        said = capsys.readouterr()
        assert f"built: {', '.join(names)}" in said.out and f"building {names[1]}; agents go on" in said.err
        assert index(home, "build", "--theme", theme) == 0
        assert "nothing to build" in capsys.readouterr().out
    assert index(home, "show", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert sorted(each["theme"] for each in shown) == sorted(["", "", *ODD, *ODD])
    assert {each["state"] for each in shown} == {"valid"}

    assert index(home, "drop", "--theme", ODD[0]) == 0
    own = ", ".join(own_graph_name(store, ODD[0]) for store in STORES)
    assert f"would drop: {own}; nothing was changed" in capsys.readouterr().out
    for theme in ODD:
        assert index(home, "drop", "--theme", theme, "--yes", "--json") == 0
        assert json.loads(capsys.readouterr().out)["dropped"] == [own_graph_name(store, theme) for store in STORES]
    assert database.column("SELECT count(*) FROM pg_indexes WHERE indexname ~ '_theme_[0-9a-f]{16}_idx$'") == [0]
    assert index(home, "drop", "--theme", ODD[0], "--yes") == 1
    assert "has indexes of its own" in capsys.readouterr().err
    assert index(home, "build", "--theme", "nobody") == 1
    assert index(home, "build", "--theme", ODD[0], "--full") == 2


def test_need_24_whoever_moves_or_deletes_a_theme_is_told_of_its_indexes(
    home: Path, admin_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Database(admin_dsn).column(
        "INSERT INTO memory_entries (agent_identity, target, content) VALUES ('old sales', 'memory', 'x') RETURNING id"
    )
    assert index(home, "build", "--theme", "old sales") == 0
    for verb, more in (("rename", ["emea"]), ("delete", [])):
        capsys.readouterr()
        assert cli.main(["themes", verb, "old sales", *more, "--hermes-home", str(home)]) == 0
        said = capsys.readouterr().out
        assert "hermes-pgvector index drop --theme 'old sales' --yes" in said
        assert ("index build --theme emea" in said) == (verb == "rename")
    assert cli.main(["themes", "rename", "old sales", "emea", "--yes", "--hermes-home", str(home)]) == 0
    assert index(home, "drop", "--theme", "old sales", "--yes") == 0


def test_need_24_whoever_changes_the_model_is_told_of_the_indexes_of_themes(
    home: Path, admin_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Database(admin_dsn).column(
        "INSERT INTO memory_entries (agent_identity, target, content) VALUES ('old sales', 'memory', 'x') RETURNING id"
    )
    assert index(home, "build", "--theme", "old sales") == 0
    with ScriptedEmbedder(dims=DIMS) as endpoint:
        for more in ([], ["--yes"]):
            capsys.readouterr()
            change = ["reembed", "--url", endpoint.url, "--model", "new", "--hermes-home", str(home), *more]
            assert cli.main(change) == 0
            assert "hermes-pgvector index build --theme 'old sales'" in capsys.readouterr().out
    assert index(home, "show", "--json") == 0
    assert {each["theme"] for each in json.loads(capsys.readouterr().out)} == {""}


def test_need_13_recall_of_the_theme_takes_its_index_and_finds_the_same(
    home: Path, backend: Backend, filled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors = questions(filled, 20)
    store: Store
    for store in STORES:
        before = [found(backend, store, vector, own_graph=False) for vector in vectors]
        # Without the index, as when it was dropped this very moment, the codes are read as ever.
        assert [found(backend, store, vector, own_graph=True) for vector in vectors] == before
        capsys.readouterr()
        assert index(home, "build", "--theme", HUGE, "--json") == 0
        shares = json.loads(capsys.readouterr().out)["found_share"]
        assert set(shares) == {own_graph_name(each, HUGE) for each in STORES} and min(shares.values()) > 0.97
        assert found(backend, store, vectors[0], own_graph=False) == before[0]
        name = own_graph_name(store, HUGE)
        until(lambda name=name: Database(filled).column(SCANS, name) == [TOLD_BY], what="the scans of the command")
        after = [found(backend, store, vector, own_graph=True) for vector in vectors]
        until(lambda name=name: Database(filled).column(SCANS, name) == [TOLD_BY + len(vectors)], what="all scans")
        same = [len(set(one) & set(other)) for one, other in zip(before, after, strict=True)]
        assert sum(same) >= 9.8 * len(vectors)
        assert index(home, "drop", "--theme", HUGE, "--yes") == 0


def test_need_13_a_filter_or_another_theme_leaves_it_alone(home: Path, backend: Backend, filled: str) -> None:
    assert index(home, "build", "--theme", HUGE) == 0
    vector = questions(filled)[0]
    for of in ({"role": "user"}, {"theme": "small"}):
        asked = [found(backend, "turns", vector, own_graph=own, **of) for own in (False, True)]
        assert asked[0] == asked[1] and len(asked[0]) == 10
    until(
        lambda: Database(filled).column(SCANS, own_graph_name("turns", HUGE)) == [TOLD_BY],
        what="the command's scans alone",
    )


def test_need_13_the_statements_after_it_keep_their_plans(home: Path, backend: Backend, filled: str) -> None:
    assert index(home, "build", "--theme", HUGE) == 0
    mode, vector = "SELECT current_setting('plan_cache_mode') AS mode", as_sent(questions(filled)[0])
    scope = Scope("theme", HUGE)
    with backend.connection(60) as conn:
        before = conn.execute(mode.encode()).fetchone()
        search = VectorSearch(Pipeline(conn), "turns", scope, Filters(), vector, limit=10, own_graph=True)
        assert len(search.candidates()) == 10
        assert conn.execute(mode.encode()).fetchone() == before


def test_need_04_under_row_level_security_it_gives_nothing_of_a_theme_that_is_not_ones_own(
    home: Path, backend: Backend, filled: str
) -> None:
    assert index(home, "build", "--theme", HUGE) == 0
    vector = questions(filled)[0]
    before = found(backend, "turns", vector, own_graph=False)
    with connect(filled) as conn:
        row_security.enable(conn)
        row_security.revoke(conn, "hermes", [])
        row_security.grant(conn, "hermes", [HUGE])
    assert len(set(found(backend, "turns", vector, own_graph=True)) & set(before)) >= 9
    with connect(filled) as conn:
        row_security.revoke(conn, "hermes", [])
        row_security.grant(conn, "hermes", ["small"])
    for own_graph in (False, True):
        assert found(backend, "turns", vector, own_graph=own_graph) == []


@pytest.mark.parametrize("state", ["valid", "unfinished", "of few rows"])
def test_need_13_an_agent_takes_it_where_it_is_valid_and_the_theme_is_huge(
    home: Path,
    filled: str,
    make_provider: MakeProvider,
    embedder: ScriptedEmbedder,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
) -> None:
    monkeypatch.setattr(vector_search, "OWN_GRAPH_ROWS", ROWS + 1 if state == "of few rows" else ROWS - 100)
    assert index(home, "build", "--theme", HUGE) == 0
    names = [own_graph_name(store, HUGE) for store in STORES]
    database = Database(filled)
    if state == "unfinished":
        database.column(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = ANY(%s::regclass[]) RETURNING 1", names
        )
    provider = make_provider({"embed_url": embedder.url}, gateway_session_key=HUGE)
    for tool in ("recall_memory", "recall_conversation"):
        answer = called(provider, tool, {"query": "Which row is it?"})
        assert answer["mode"] == "hybrid" and answer["count"]
        assert called(provider, tool, {"query": "Which row is it?", "since": "2020-01-01"})["count"]
    for name in names:
        if state == "valid":
            until(lambda name=name: database.column(SCANS, name) == [TOLD_BY + 1], what="one scan after the command's")
        else:
            assert database.column(SCANS, name) == [TOLD_BY]
