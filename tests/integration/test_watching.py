"""What status, stats and metrics tell of a home and its database."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from hermes_memory_pgvector.admin.common import holdings, repeat, row_security
from hermes_memory_pgvector.admin.status import report
from hermes_memory_pgvector.admin.status.prometheus import METRICS, CounterTotals, as_text, parse_address, registry_of
from hermes_memory_pgvector.admin.status.report import Watcher
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.errors import WrongUsage
from hermes_memory_pgvector.runtime.process import close_all
from hermes_memory_pgvector.store.pool import connect
from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.blocked_packages import PoorEnvironment
from tests.support.hermes import PLUGIN_FOLDER
from tests.support.left_spool import leave_spool, operation
from tests.support.memory import called, landed, runtime_of
from tests.support.ports import free_port
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.turns import ANSWER, turn
from tests.support.waiting import until

Capture = pytest.CaptureFixture[str]
Start = Callable[..., "subprocess.Popen[str]"]
DOCUMENTS = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


@pytest.fixture(autouse=True)
def configured(home: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home on the test's database, whose agents tell how they do all the time."""
    monkeypatch.setattr("hermes_memory_pgvector.capture.writer._REPORT_S", 0.0)
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))


def status(home: Path, capsys: Capture, verb: str = "status") -> dict[str, Any]:
    assert main([verb, "--json", "--hermes-home", str(home)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert isinstance(told, dict)
    return told


def rows(dsn: str, *ages: tuple[str, int, int]) -> None:
    """For each theme, so many memories and turns of so many days ago: (theme, count, days)."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        for theme, count, days in ages:
            conn.execute(
                "INSERT INTO conversations (session_id, agent_identity, role, content, ts) SELECT 's', %s, 'user', "
                "'turn ' || n, now() - make_interval(days => %s) FROM generate_series(1, %s) AS n",
                (theme, days, count),
            )  # fmt: skip
            conn.execute(
                "INSERT INTO memory_entries (agent_identity, target, content, created_at) SELECT %s, 'memory', "
                "%s || ' memory ' || n, now() - make_interval(days => %s) FROM generate_series(1, %s) AS n",
                (theme, str(days), days, count),
            )


def test_need_24_sizes_themes_and_growth(dsn: str, home: Path, capsys: Capture) -> None:
    rows(dsn, ("a", 3, 0), ("b", 5, 3), ("b", 7, 30), ("c", 1, 400))
    held = status(home, capsys)["database"]
    assert (held["memories"], held["turns"], held["themes"]) == (16, 16, 3)
    assert (held["turns_last_day"], held["turns_last_week"]) == (3, 8)
    assert (held["memories_last_day"], held["memories_last_week"]) == (3, 8)
    assert held["pending_memories"] + held["pending_turns"] == 32
    assert held["about"] == []
    sizes = {table["name"]: table for table in held["tables"]}
    assert sizes["conversations"]["table_bytes"] > 0 and sizes["conversations"]["index_bytes"] > 0
    assert held["database_bytes"] > sum(table["table_bytes"] + table["index_bytes"] for table in held["tables"])
    assert main(["status", "--hermes-home", str(home)]) == 0
    said = capsys.readouterr().out
    assert "16 memories, 16 turns in 3 themes; found by words, as no embedding model is set" in said
    assert "about" not in said


@pytest.mark.parametrize("confined", [False, True], ids=["every theme", "some themes"])
def test_need_24_large_tables_are_estimated_and_said_to_be(
    dsn: str, admin_dsn: str, home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, confined: bool
) -> None:
    rows(dsn, ("marketing", 1000, 1), ("sales", 1000, 1))
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute("ANALYZE")
    if confined:
        with connect(admin_dsn) as admin:
            row_security.enable(admin)
            row_security.revoke(admin, "hermes", [])
            row_security.grant(admin, "hermes", ["marketing"])
    monkeypatch.setattr(holdings, "COUNTED_ROWS", 500)
    held = status(home, capsys)["database"]
    wanted = 1000 if confined else 2000
    assert held["about"] == ["memories", "pending_memories", "pending_turns", "turns"]
    assert held["turns"] == pytest.approx(wanted, rel=0.2), "the planner's estimate, of what this role sees"
    assert main(["status", "--hermes-home", str(home)]) == 0
    assert f"about {held['memories']:,} memories" in capsys.readouterr().out


def test_need_24_recall_hit_rates_and_latencies(
    home: Path, make_provider: MakeProvider, embedder: ScriptedEmbedder, capsys: Capture
) -> None:
    provider = make_provider({"embed_url": embedder.url})
    provider.on_memory_write("add", "memory", "The Atlas project is painted blue")
    landed(provider)
    assert provider.prefetch("Which colour is the Atlas project painted in?")
    assert provider.prefetch("Which colour is the Atlas project painted in?") == "", "it was shown already"
    assert called(provider, "recall_memory", {"query": "Atlas"})["count"] == 1
    assert called(provider, "recall_memory", {"query": "Atlas", "theme": "sales"})["count"] == 0
    assert called(provider, "recall_memory", {"query": "atlas project"})["count"] == 1

    def told() -> dict[str, Any] | None:
        runtime_of(provider).writer.flush(5)
        recall = status(home, capsys)["recall"]
        return recall if recall["tool_recalls"] == 3 else None

    recall = until(told, 30, "the counters of the process")
    assert recall == {
        "prefetches": 2, "prefetches_found": 1, "tool_recalls": 3, "tool_recalls_found": 2,
        "prefetch_hit_rate": 0.5, "tool_hit_rate": 0.667,
    }  # fmt: skip
    numbers = status(home, capsys, "stats")
    assert numbers["prefetch_hit_rate"] == 0.5 and numbers["oldest_waiting_s"] == 0
    for work in ("embed", "embed_query", "write", "search"):
        assert 0 < numbers[f"{work}_p50_ms"] <= numbers[f"{work}_p95_ms"]
    assert main(["status", "--hermes-home", str(home)]) == 0
    assert "prefetch found something in 50% of 2, tools found something in 67% of 3" in capsys.readouterr().out


def test_need_40_a_process_that_ended_and_left_nothing_to_do_is_not_named(
    home: Path, make_provider: MakeProvider, capsys: Capture
) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "The Atlas project is painted blue")
    landed(provider)
    close_all()

    (process,) = status(home, capsys)["processes"]
    assert not process["living"] and not process["waiting"], "its file keeps what Postgres has"
    assert main(["status", "--hermes-home", str(home)]) == 0
    told = capsys.readouterr().out
    assert process["pid"] not in told and "no agent of this home runs, and none has left writes behind" in told


def test_need_40_who_takes_over_what_a_process_left_depends_on_whether_an_agent_runs(
    home: Path, make_provider: MakeProvider, capsys: Capture
) -> None:
    dsn = f"host=127.0.0.1 port={free_port()} dbname=nowhere user=nobody"
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": dsn}}}))
    leave_spool(home, [operation("add", "sales", {"target": "memory", "content": "Atlas is blue"}, 1.0)])
    assert main(["status", "--hermes-home", str(home)]) == 1
    assert "what waits follows when an agent starts" in capsys.readouterr().out

    make_provider({"dsn": dsn}).on_memory_write("add", "memory", "The Atlas project is painted blue")

    assert main(["status", "--hermes-home", str(home)]) == 1
    told = capsys.readouterr().out
    assert "an agent that runs takes over what waits" in told and "when an agent starts" not in told


# -- again and again ---------------------------------------------------------------------------------------------------


def test_need_40_an_agent_that_runs_on_with_the_code_of_before_an_upgrade_is_named(
    dsn: str, home: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "environment" / "hermes_memory_pgvector"
    shutil.copytree(PLUGIN_FOLDER, package, ignore=shutil.ignore_patterns("__pycache__"))
    manifest = (package / "plugin.yaml").read_text(encoding="utf-8")
    ours = yaml.safe_load(manifest)["version"]
    (package / "plugin.yaml").write_text(manifest.replace(ours, "1.0.9"), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))

    def reporting(pid: int) -> bool:
        return any(each["pid"] == str(pid) and each["report"] for each in status(home, capsys)["processes"])

    with AgentProcess({"dsn": dsn, "dims": DIMS}, home, forked=False) as agent:
        (package / "plugin.yaml").write_text(manifest, encoding="utf-8")  # as an upgrade does beneath it
        until(lambda: reporting(agent.pid), what="its report")
        said = f"is of version 1.0.9, this command of {ours}"
        main(["status", "--hermes-home", str(home)])
        assert f"{said}: restart it" in capsys.readouterr().out
        main(["doctor", "--json", "--hermes-home", str(home)])
        (check,) = [each for each in json.loads(capsys.readouterr().out)["checks"] if each["name"] == "agents"]
        assert (check["said"], check["fix"]) == (f"process {agent.pid} {said}", "restart it")

    with AgentProcess({"dsn": dsn, "dims": DIMS}, home, forked=False) as agent:
        until(lambda: reporting(agent.pid), what="the report of the one that was started anew")
        main(["status", "--hermes-home", str(home)])
        assert "this command of" not in capsys.readouterr().out


def test_need_24_watch_prints_a_line_each_and_ends_at_ctrl_c(start_cli: Start) -> None:
    with start_cli("status", "--watch", "0.1", "--json") as process:
        assert process.stdout is not None
        looks = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=150)
    assert all("turns" in look["database"] for look in looks)
    assert (process.returncode, errors) == (130, "")


@pytest.mark.parametrize("verb", ["status", "stats"])
def test_need_24_watch_ends_with_its_reader(start_cli: Start, verb: str) -> None:
    with start_cli(verb, "--watch", "0.1") as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith("# 20")
        process.stdout.close()
        process.wait(30)
        assert (process.returncode, process.stderr.read()) == (0, "")


def test_need_24_watch_draws_anew_on_a_terminal(home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(every_s: float) -> Iterator[None]:
        assert every_s == 2
        yield
        yield

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(repeat, "repeatedly", twice)
    monkeypatch.setattr("hermes_memory_pgvector.admin.status.command.repeatedly", twice)
    assert main(["status", "--watch", "--hermes-home", str(home)]) == 0
    assert capsys.readouterr().out.count("\x1b[H\x1b[J") == 2


def test_need_24_how_often_is_a_number_of_seconds(capsys: Capture) -> None:
    for wrong in ("0", "-1", "nan", "often"):
        with pytest.raises(SystemExit):
            main(["status", "--watch", wrong])
        assert "seconds, from 0.1" in capsys.readouterr().err


# -- Prometheus --------------------------------------------------------------------------------------------------------


def values(text: str) -> dict[str, float]:
    """Each sample by its name and labels."""
    return {
        sample.name + "".join(f" {key}={value}" for key, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@contextmanager
def served(start_cli: Start, address: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The exporter in a process of its own, and its URL."""
    with start_cli("metrics", "--listen", address) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        try:
            assert line.startswith("metrics are at "), line
            yield process, line.split()[-1]
        finally:
            process.kill()


def scraped(url: str) -> dict[str, float]:
    with urllib.request.urlopen(url, timeout=150) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return values(answer.read().decode())


def test_need_01_a_scrape_does_not_wait_for_a_server_that_hangs(
    dsn: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_DATABASE_S", 0.2)
    ready = threading.Event()

    def locate() -> str:
        ready.wait()
        return dsn

    with closing(Watcher(Settings(dims=DIMS), home, locate, patient=False)) as watcher:
        registry = registry_of(watcher.look)
        try:
            for _ in range(2):
                found = values(as_text(registry))
                assert found["hermes_pgvector_up"] == 0 and found["hermes_pgvector_spool_writes"] == 0
        finally:
            ready.set()
        monkeypatch.undo()
        until(lambda: values(as_text(registry))["hermes_pgvector_up"] == 1, 30, "the server to be up")


def test_need_24_prometheus_scrapes_what_agents_do(
    dsn: str, start_cli: Start, make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    rows(dsn, ("a", 3, 0), ("b", 5, 3))
    with served(start_cli, "127.0.0.1:0") as (process, url):
        before = scraped(url)
        assert before["hermes_pgvector_up"] == 1
        assert before["hermes_pgvector_rows store=turns"] == 8
        assert before["hermes_pgvector_rows_last_day store=memories"] == 3
        assert before["hermes_pgvector_themes"] == 2
        assert before["hermes_pgvector_written_total"] == 0
        provider = make_provider({"embed_url": embedder.url})
        provider.sync_turn(turn(1), ANSWER)
        landed(provider)
        called(provider, "recall_conversation", {"query": turn(1)})
        now = until(lambda: _written(provider, url), 30, "the writes in the metrics")
        assert now["hermes_pgvector_processes postgres=up"] == 1
        assert now["hermes_pgvector_recalls_total found=yes kind=tool"] == 1
        assert 0 < now["hermes_pgvector_latency_seconds quantile=0.5 work=write"] < 30
        provider.shutdown()
        after = scraped(url)
        assert after["hermes_pgvector_processes postgres=up"] == 0
        assert after["hermes_pgvector_written_total"] == now["hermes_pgvector_written_total"], "counters never fall"
        process.send_signal(signal.SIGTERM)
        assert process.wait(150) == 0
        with pytest.raises(urllib.error.URLError):
            scraped(url)


def _written(provider: Any, url: str) -> dict[str, float] | None:
    runtime_of(provider).writer.flush(5)
    now = scraped(url)
    return now if now["hermes_pgvector_recalls_total found=yes kind=tool"] else None


def test_need_24_a_scrape_says_that_postgres_is_down(home: Path, capsys: Capture) -> None:
    section = {"dsn": "host=127.0.0.1 port=1 dbname=x user=y", "dims": DIMS}
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": section}}))
    assert main(["metrics", "--hermes-home", str(home)]) == 0
    found = values(capsys.readouterr().out)
    assert found["hermes_pgvector_up"] == 0 and found["hermes_pgvector_spool_writes"] == 0
    assert "hermes_pgvector_rows store=turns" not in found


def test_need_24_a_file_for_the_node_exporter_is_whole_at_any_time(
    home: Path, tmp_path: Path, start_cli: Start, capsys: Capture
) -> None:
    file = tmp_path / "metrics" / "hermes.prom"
    assert main(["metrics", "--textfile", str(file), "--hermes-home", str(home)]) == 1
    assert "cannot be written" in capsys.readouterr().err
    file.parent.mkdir()
    assert main(["metrics", "--textfile", str(file), "--hermes-home", str(home)]) == 0
    first = file.stat()
    assert first.st_mode & 0o777 == 0o644
    with start_cli("metrics", "--textfile", str(file), "--every", "0.1") as process:
        until(lambda: file.stat().st_ino != first.st_ino, 30, "the file to be written anew")
        for _ in range(50):
            assert values(file.read_text())["hermes_pgvector_up"] == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(150) == 0
    assert list(file.parent.iterdir()) == [file], "nothing else is left"


def test_who_connects_and_asks_nothing_is_let_go(dsn: str, home: Path, start_cli: Start) -> None:
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    with served(start_cli, "127.0.0.1:0") as (_, url):
        with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=90) as idle:
            assert idle.recv(1) == b""
        assert scraped(url)["hermes_pgvector_up"] == 1


def test_need_24_where_it_cannot_listen_it_says_why(home: Path, capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for address, said, code in (
            (f"127.0.0.1:{taken.getsockname()[1]}", "in use", 1),
            ("192.0.2.1:9187", "choose another port or address", 1),
            ("nowhere.invalid:9187", "there is no host 'nowhere.invalid'", 1),
            ("127.0.0.1", "HOST:PORT", 2),
        ):
            assert main(["metrics", "--listen", address, "--hermes-home", str(home)]) == code
            assert said in capsys.readouterr().err


def test_need_24_addresses() -> None:
    known = {
        "127.0.0.1:9187": ("127.0.0.1", 9187), "[::1]:9187": ("::1", 9187), ":9187": ("0.0.0.0", 9187),
        "9187": ("127.0.0.1", 9187), "localhost:0": ("localhost", 0), "[::]:80": ("::", 80),
    }  # fmt: skip
    assert {text: parse_address(text) for text in known} == known
    for wrong in ("", "localhost", "::1:9187", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1", "a:b"):
        with pytest.raises(WrongUsage):
            parse_address(wrong)


def test_need_24_over_ipv6(start_cli: Start) -> None:
    address = "[::1]:0" if _has_ipv6() else "127.0.0.1:0"
    with served(start_cli, address) as (_, url):
        assert scraped(url)["hermes_pgvector_up"] == 1


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def test_need_24_without_the_client_library_its_name_is_given(home: Path, tmp_path: Path) -> None:
    poor = PoorEnvironment(tmp_path / "packages", ["prometheus_client"])
    done = poor.run("import sys; from hermes_memory_pgvector.cli import main; sys.exit(main(['metrics']))", home=home)
    assert done.returncode == 1
    assert "pip install prometheus_client" in done.stderr


def test_need_24_every_metric_is_documented_and_every_documented_one_exists() -> None:
    page = DOCUMENTS.read_text()
    for known in METRICS:
        shown = known.name + ("_total" if known.kind == "counter" else "")
        labels = "".join(f" `{label}`" for label in known.labels)
        assert f"| `{shown}` |{labels or ' '}" in page, shown
        assert known.help in page, shown
    named = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `hermes_pgvector_")}
    assert named == {known.name + ("_total" if known.kind == "counter" else "") for known in METRICS}


def test_need_24_a_counter_never_falls() -> None:
    tally = CounterTotals()

    def process(name: str, **report: float) -> dict[str, Any]:
        return {"name": name, "living": True, "report": report}

    assert tally.take([process("1-a", operations=10), process("2-b", operations=5)])["operations"] == 15
    assert tally.take([process("1-a", operations=12)])["operations"] == 17, "2 has ended"
    assert tally.take([process("1-a"), process("1-c", operations=1)])["operations"] == 18, "no report this time"
    assert tally.take([process("1-a", operations=13), process("1-c", operations=1)])["operations"] == 19
