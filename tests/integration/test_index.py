"""The HNSW indexes: dropped for a bulk load, and built again, by `index build` or `migrate`, without a time limit."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector import cli
from hermes_memory_pgvector.admin.common import hnsw, new_vectors
from hermes_memory_pgvector.admin.index.build_memory import build_memory, free_bytes
from hermes_memory_pgvector.domain.types import EmbeddingSpace, Filters, Scope
from hermes_memory_pgvector.store.pool import connect
from tests.conftest import DIMS
from tests.support.candidates import vector_candidates
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

Start = Callable[..., "subprocess.Popen[str]"]
INDEXES = ["memory_entries_embedding_idx", "conversations_embedding_idx"]
WHOLE = (
    "SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid"
    " WHERE i.indisvalid AND c.relname ~ 'embedding_idx$' ORDER BY 1 DESC"
)
FULL = ["memory_entries_embedding_full_idx", "conversations_embedding_full_idx"]
ANY_GRAPH = "SELECT indexname FROM pg_indexes WHERE indexdef LIKE '%%USING hnsw%%' ORDER BY 1 DESC"
DEFINITIONS = "SELECT indexdef FROM pg_indexes WHERE indexname ~ 'embedding_idx$' ORDER BY 1"
VECTORS = (
    " 'bulk', 'user', 'row ' || n, (SELECT array_agg(sin(n * 12.9898 + d * 78.233))"
    f" FROM generate_series(1, {DIMS}) AS d)::vector FROM generate_series(1, %s) AS n"
)
TURNS = "INSERT INTO conversations (session_id, agent_identity, role, content, embedding) SELECT 's'," + VECTORS
MEMORIES = "INSERT INTO memory_entries (agent_identity, target, content, embedding) SELECT" + VECTORS


@pytest.fixture
def configured(home: Path, dsn: str, admin_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_ADMIN_DSN", admin_dsn)
    (home / "config.yaml").write_text(f"plugins: {{pgvector: {{dsn: '{dsn}', dims: {DIMS}}}}}\n")


def filled(admin_dsn: str, rows: int) -> None:
    """Both tables have rows, and no HNSW index."""
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("DROP INDEX conversations_embedding_idx, memory_entries_embedding_idx")
        admin.execute(TURNS, (rows,))
        admin.execute(MEMORIES, (3,))
        admin.execute("ANALYZE conversations")


@contextmanager
def held_up(admin_dsn: str) -> Iterator[None]:
    """A transaction that a concurrent build waits for, ended a second and a half after it began to."""
    database = Database(admin_dsn)
    with psycopg.connect(admin_dsn) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT 1")

        def let_go() -> None:
            building = "SELECT count(*) FROM pg_stat_progress_create_index WHERE phase ~ 'old snapshots'"
            until(lambda: database.column(building) == [1], 60, "a build")
            database.column("SELECT 1 FROM pg_sleep(1.5)")
            other.rollback()

        thread = threading.Thread(target=let_go)
        thread.start()
        yield
        thread.join()


@pytest.mark.usefixtures("configured")
def test_need_24_the_indexes_go_for_a_bulk_load_and_come_back_the_same(
    home: Path, admin_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    database = Database(admin_dsn)
    before = database.column(DEFINITIONS)
    where = ["--hermes-home", str(home)]

    assert cli.main(["index", "drop", *where]) == 0
    assert f"would drop: {', '.join(INDEXES)}; nothing was changed: add --yes" in capsys.readouterr().out
    assert cli.main(["index", "drop", "--json", *where]) == 0
    would = json.loads(capsys.readouterr().out)
    assert (would["done"], would["dropped"], would["to_drop"]) == (False, [], INDEXES)
    assert database.column(WHOLE) == INDEXES
    assert cli.main(["index", "drop", "--yes", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["dropped"] == INDEXES
    assert database.column(WHOLE) == []
    database.column(TURNS + " RETURNING id", 50)
    with pytest.raises(SystemExit):
        cli.main(["index", "build", "--memory", "4gb", *where])
    assert "as 4GB or 512MB" in capsys.readouterr().err
    assert cli.main(["index", "build", "--memory", "32MB", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["built"] == INDEXES

    assert database.column(DEFINITIONS) == before
    assert all("hnsw (sig bit_hamming_ops)" in definition for definition in before)
    assert cli.main(["index", "show", *where]) == 0
    assert capsys.readouterr().out.count("valid") == 2
    # Also before anything has analysed the tables: a build gets its memory by that.
    assert cli.main(["index", "show", "--json", *where]) == 0
    assert [each["rows"] for each in json.loads(capsys.readouterr().out)] == [0, 50]


@pytest.mark.usefixtures("configured")
def test_need_24_an_operator_may_have_the_indexes_of_whole_vectors(
    home: Path, admin_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    database = Database(admin_dsn)
    where = ["--hermes-home", str(home)]
    database.column(TURNS + " RETURNING id", 50)
    assert cli.main(["index", "build", "--full", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["built"] == FULL
    assert database.column(ANY_GRAPH) == FULL
    assert cli.main(["index", "build", *where]) == 0 and "nothing to build" in capsys.readouterr().out
    with connect(admin_dsn) as conn:
        register_vector(conn)
        (vector,) = database.column("SELECT embedding::float4[] FROM conversations WHERE content = 'row 7'")
        found = vector_candidates(conn, "turns", Scope("all", ""), Filters(), vector, limit=5, graph_rows=0)
    assert database.column("SELECT content FROM conversations WHERE id = %s", found[0].id) == ["row 7"]
    assert cli.main(["index", "drop", "--yes", *where]) == 0 and cli.main(["index", "build", *where]) == 0
    assert database.column(ANY_GRAPH) == INDEXES


@pytest.fixture
def reembed(home: Path) -> Iterator[Callable[..., int]]:
    """`hermes-pgvector reembed` to the model of an endpoint."""
    with ScriptedEmbedder(dims=DIMS) as endpoint:
        yield lambda *more: cli.main(
            ["reembed", "--url", endpoint.url, "--model", "new", "--hermes-home", str(home), *more]
        )


def begun(admin_dsn: str) -> None:
    """A change to another model that nobody has finished."""
    with new_vectors.admin_connection(admin_dsn) as conn:
        new_vectors.begin(conn, EmbeddingSpace("new", DIMS, "", ""))


@pytest.mark.usefixtures("configured")
def test_need_24_a_change_of_the_model_builds_no_index_that_an_operator_does_without(
    home: Path, admin_dsn: str, reembed: Callable[..., int]
) -> None:
    database = Database(admin_dsn)
    database.column(TURNS + " RETURNING id", 5)
    with psycopg.connect(admin_dsn) as admin:
        admin.execute("DROP INDEX conversations_embedding_idx")
    begun(admin_dsn)
    assert cli.main(["reembed", "--abort", "--yes", "--hermes-home", str(home)]) == 0
    assert database.column(ANY_GRAPH) == INDEXES[:1]
    assert reembed("--yes") == 0
    assert database.column(ANY_GRAPH) == INDEXES[:1]
    assert database.column("SELECT model FROM hermes_embedding") == ["new"]


@pytest.mark.usefixtures("configured")
def test_need_24_whoever_changes_the_model_is_told_what_becomes_of_indexes_of_whole_vectors(
    home: Path, admin_dsn: str, reembed: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    database = Database(admin_dsn)
    where = ["--hermes-home", str(home)]
    assert cli.main(["index", "build", "--full", *where]) == 0
    begun(admin_dsn)
    assert cli.main(["reembed", "--abort", "--yes", *where]) == 0
    assert database.column(ANY_GRAPH) == FULL
    for more in ([], ["--yes"]):
        capsys.readouterr()
        assert reembed(*more) == 0
        assert "to have them again: hermes-pgvector index build --full" in capsys.readouterr().out
    assert database.column(ANY_GRAPH) == INDEXES


@pytest.mark.usefixtures("configured")
def test_need_24_giving_up_a_change_that_nobody_began_builds_no_index(
    home: Path, admin_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["index", "drop", "--yes", "--hermes-home", str(home)]) == 0
    assert cli.main(["reembed", "--abort", "--yes", "--hermes-home", str(home)]) == 0
    assert "no change of the model is under way" in capsys.readouterr().out
    assert Database(admin_dsn).column(ANY_GRAPH) == []


@pytest.mark.usefixtures("configured")
def test_need_24_who_gives_a_change_up_and_is_stopped_is_told_which_indexes_there_were(
    home: Path, admin_dsn: str, start_cli: Start
) -> None:
    database = Database(admin_dsn)
    assert cli.main(["index", "build", "--full", "--hermes-home", str(home)]) == 0
    begun(admin_dsn)
    with psycopg.connect(admin_dsn) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT 1")  # each build waits for this snapshot
        with start_cli("reembed", "--abort", "--yes", "--admin-dsn", admin_dsn) as process:
            ended = "SELECT to_regclass('hermes_reembed')"
            until(lambda: database.column(ended) == [None], 60, "the change to be given up")
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=150)
    assert process.returncode == 130
    assert "to have the HNSW indexes of before again: hermes-pgvector index build --full" in said


@pytest.mark.usefixtures("configured")
def test_need_24_a_change_that_an_older_version_began_gets_both_indexes(
    admin_dsn: str, reembed: Callable[..., int]
) -> None:
    database = Database(admin_dsn)
    begun(admin_dsn)
    with psycopg.connect(admin_dsn) as admin:
        admin.execute("ALTER TABLE hermes_reembed DROP COLUMN hnsw")
    assert reembed("--yes") == 0
    assert database.column(ANY_GRAPH) == INDEXES


@pytest.mark.usefixtures("configured")
def test_need_24_the_indexes_of_an_older_version_are_replaced(
    home: Path, admin_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    database = Database(admin_dsn)
    before = database.column(DEFINITIONS)
    filled(admin_dsn, 50)
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute(
            "CREATE INDEX conversations_embedding_idx ON conversations USING hnsw (embedding vector_cosine_ops)"
        )
    assert cli.main(["index", "build", "--hermes-home", str(home)]) == 0
    assert "built: memory_entries_embedding_idx, conversations_embedding_idx" in capsys.readouterr().out
    assert database.column(DEFINITIONS) == before


@pytest.mark.usefixtures("configured")
def test_need_24_a_build_knows_no_time_limit_and_finishes_what_was_killed(
    home: Path, admin_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(admin_dsn, 200)
    database = Database(admin_dsn)
    hurried = make_conninfo(admin_dsn, options="-c statement_timeout=1000")
    concurrently = "CREATE INDEX CONCURRENTLY conversations_embedding_idx ON conversations USING hnsw"
    with (
        held_up(admin_dsn),
        psycopg.connect(hurried, autocommit=True) as admin,
        pytest.raises(psycopg.errors.QueryCanceled),
    ):
        admin.execute(f"{concurrently} (sig bit_hamming_ops)".encode())
    with connect(admin_dsn) as conn:
        assert [each.state for each in hnsw.indexes(conn)] == ["missing", "unfinished"]

    with held_up(admin_dsn):
        assert cli.main(["index", "build", "--admin-dsn", hurried, "--hermes-home", str(home)]) == 0

    said = capsys.readouterr()
    assert "building conversations_embedding_idx; agents go on meanwhile" in said.err
    assert f"built: {', '.join(INDEXES)}" in said.out
    assert database.column(WHOLE) == INDEXES


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize("verb", [["build"], ["drop", "--yes"]])
def test_need_40_a_role_that_may_not_build_or_drop_is_told_who_may(
    home: Path, dsn: str, admin_dsn: str, capsys: pytest.CaptureFixture[str], verb: list[str]
) -> None:
    if verb == ["build"]:
        filled(admin_dsn, 3)
    assert cli.main(["index", *verb, "--admin-dsn", dsn, "--hermes-home", str(home)]) == 1
    said = capsys.readouterr().err
    assert "must name a superuser, or the owner of the tables" in said and "Postgres is up" not in said


@pytest.mark.usefixtures("configured")
def test_need_24_a_home_whose_settings_are_of_another_model_drops_and_builds_the_indexes_that_there_are(
    home: Path, admin_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.yaml").write_text((home / "config.yaml").read_text().replace(f"dims: {DIMS}", "dims: 96"))
    assert cli.main(["index", "drop", "--yes", "--hermes-home", str(home)]) == 0
    assert Database(admin_dsn).column(WHOLE) == []
    assert cli.main(["index", "build", "--hermes-home", str(home)]) == 0
    assert Database(admin_dsn).column(WHOLE) == INDEXES
    assert f"vectors of {DIMS} dimensions" in capsys.readouterr().err


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize("verb", ["index", "reembed"])
def test_need_40_who_waits_for_a_build_or_with_one_is_told_of_the_session_to_wait_for(
    admin_dsn: str, start_cli: Start, verb: str
) -> None:
    filled(admin_dsn, 20)
    with ScriptedEmbedder(dims=8) as model, psycopg.connect(admin_dsn, application_name="a report") as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT 1")
        as_admin = ("--admin-dsn", admin_dsn)
        builds = start_cli("index", "build", *as_admin)
        assert builds.stderr is not None
        assert any(f"waiting for a lock that session {reader.info.backend_pid} of" in line for line in builds.stderr)
        others = {"index": ["index", "build"], "reembed": ["reembed", "--yes", "--url", model.url, "--model", "newer"]}
        waits = start_cli(*others[verb], *as_admin)
        assert waits.stderr is not None
        told = next(line for line in waits.stderr if "waits" in line)
        assert "another process is at the vectors of this database, or their indexes (role " in told
        reader.rollback()
        for command in (builds, waits):
            out, err = command.communicate(timeout=150)
            assert command.returncode == 0, out + err


def test_need_28_migrate_builds_what_a_filled_database_lacks_without_a_time_limit(
    home: Path, admin_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(admin_dsn, 200)
    hurried = make_conninfo(admin_dsn, options="-c statement_timeout=1000")
    command = ["migrate", "--admin-dsn", hurried, "--dims", str(DIMS), "--hermes-home", str(home)]

    with held_up(admin_dsn):
        assert cli.main([*command, "--runtime-role", "hermes"]) == 0

    said = capsys.readouterr()
    assert all(f"built {index}" in said.out for index in INDEXES)
    assert "building conversations_embedding_idx; agents go on meanwhile" in said.err
    assert Database(admin_dsn).column(WHOLE) == INDEXES
    assert cli.main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["built"] == []


def test_need_28_a_migration_never_builds_them_where_others_would_wait(admin_dsn: str) -> None:
    """The file alone, as psql runs it, in one transaction."""
    from hermes_memory_pgvector.admin.common.migrations import migrations

    filled(admin_dsn, 20)
    with psycopg.connect(admin_dsn, autocommit=True, options=f"-c hermes_pgvector.dims={DIMS}") as admin:
        admin.execute(migrations()[0].sql.encode())

    assert Database(admin_dsn).column(WHOLE) == []


def test_need_24_a_build_gets_what_it_wants_of_memory_that_is_free() -> None:
    assert build_memory(10**8, 64 * 2**20, on_this_machine=False) == ""
    assert build_memory(10**7, 64 * 2**20, on_this_machine=True) == ""
    assert build_memory(100 * 2**20, 64 * 2**20, on_this_machine=True) == f"{100 * 1024}kB"
    vast = build_memory(10**18, 2**20, on_this_machine=True)
    assert vast.endswith("kB") and 1024 < int(vast.removesuffix("kB")) < 10**15 // 1024


MB = 2**20


@pytest.mark.parametrize(
    ("line", "files", "free_mb"),
    [
        ("0::/agents.slice/hermes.service", {}, 4000),
        ("0::/", {"memory.max": 1000, "memory.current": 600}, 400),
        ("0::/", {"memory.max": 1000, "memory.current": 900, "memory.stat": 500}, 600),
        ("0::/", {"memory.max": 1000, "memory.current": 1100}, 0),
        ("0::/a.slice/b.service", {"a.slice/memory.max": 1000, "a.slice/memory.current": 300}, 700),
        ("0::/a", {"a/memory.max": 9000, "a/memory.current": 300}, 4000),
        (
            "4:cpu,memory:/pod",
            {"memory/memory.limit_in_bytes": 1000, "memory/memory.usage_in_bytes": 250},
            750,
        ),
    ],
)
def test_need_24_what_its_control_group_uses_already_is_not_free(
    tmp_path: Path, line: str, files: dict[str, int], free_mb: int
) -> None:
    processes, groups = tmp_path / "proc", tmp_path / "cgroup"
    (processes / "self").mkdir(parents=True)
    (processes / "meminfo").write_text("MemTotal: 8192000 kB\nMemAvailable:    4096000 kB\n")
    (processes / "self" / "cgroup").write_text(f"1:name=systemd:/\n{line}\n")
    for name, number in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        stat = f"anon 1\nactive_file {number * MB - 1}\ninactive_file 1\nslab 7\n"
        (groups / name).write_text(stat if name.endswith("stat") else f"{number * MB}\n")
    assert free_bytes(processes, groups) == free_mb * MB
