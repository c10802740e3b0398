"""Recall from a real streaming replica, and what happens when that is behind, away or no replica at all."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
import yaml
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common import row_security
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.config.loading import load
from hermes_memory_pgvector.domain.errors import StoreConflict
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.store import read_routing
from hermes_memory_pgvector.store.pipeline import Pipeline
from hermes_memory_pgvector.store.pool import connect
from tests.conftest import DIMS, MakeProvider
from tests.support.limits import LATE_S
from tests.support.memory import called, landed, recalled, runtime_of
from tests.support.own_postgres import OwnPostgres
from tests.support.pooler import pgbouncer
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.streaming import Standby, replicated_postgres, standby_of
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import ANSWER, turn
from tests.support.waiting import until

Records = Callable[[int], list[str]]
DISABLED = "the replica is disabled, the primary answers instead"


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[OwnPostgres, Standby]]:
    with replicated_postgres(DIMS) as servers:
        yield servers


@pytest.fixture(scope="module")
def database(pair: tuple[OwnPostgres, Standby]) -> Database:
    """The database that all tests share; each has its theme."""
    made = pair[0].database()
    pair[1].caught_up(pair[0])
    return made


@pytest.fixture
def primary(pair: tuple[OwnPostgres, Standby]) -> OwnPostgres:
    return pair[0]


@pytest.fixture
def standby(pair: tuple[OwnPostgres, Standby]) -> Standby:
    return pair[1]


@pytest.fixture
def dsn(database: Database) -> str:
    return database.dsn


@pytest.fixture
def network(standby: Standby, dsn: str) -> Iterator[TcpProxy]:
    """Between the agents and the replica."""
    with TcpProxy.before(standby.conninfo(dsn)) as proxy:
        yield proxy


@pytest.fixture
def config(network: TcpProxy, standby: Standby, dsn: str) -> dict[str, Any]:
    return {"read_dsn": network.conninfo(standby.conninfo(dsn)), "read_max_lag_s": 600}


@pytest.fixture
def theme(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).lower()


@pytest.fixture
def agent(make_provider: MakeProvider, config: dict[str, Any], theme: str) -> Callable[..., PgvectorMemoryProvider]:
    """Makes a provider whose replica can be used by now."""

    def make(more: dict[str, Any] | None = None, **kwargs: Any) -> PgvectorMemoryProvider:
        made = make_provider(config | (more or {}), **{"gateway_session_key": theme} | kwargs)
        until(lambda: told(made)["replica"] == "up", 20, "the replica to be found fit")
        return made

    return make


@pytest.fixture(autouse=True)
def looked_at_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_routing, "_LOOK_FIRST_S", 0.2)


def told(provider: PgvectorMemoryProvider) -> dict[str, Any]:
    return dict(runtime_of(provider).stats())


def reads(provider: PgvectorMemoryProvider) -> tuple[int, int]:
    """How many questions the replica and the primary have answered."""
    stats = told(provider)
    return stats["reads_replica"], stats["reads_primary"]


def remember(provider: PgvectorMemoryProvider, standby: Standby, primary: OwnPostgres, *texts: str) -> None:
    """Write memories, and wait until the replica has them and this process knows where they stand."""
    for text in texts:
        provider.on_memory_write("add", "memory", text)
    landed(provider)
    standby.caught_up(primary)
    replica = runtime_of(provider).backend.replica
    assert replica is not None
    until(lambda: not replica._progress.unplaced(), 20, "the position of the writes")


def forget_elsewhere(primary: OwnPostgres, database: Database, content: str) -> None:
    """Another host removes a memory."""
    tell(primary.admin_of(database), "DELETE FROM memory_entries WHERE content = %s", content)


def tell(conninfo: str, statement: LiteralString, *parameters: object) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(statement, parameters)


def test_need_30_every_question_is_answered_by_the_replica(
    agent: Callable[..., PgvectorMemoryProvider], primary: OwnPostgres, standby: Standby, database: Database,
    embedder: ScriptedEmbedder, theme: str, records: Records,
) -> None:  # fmt: skip
    provider = agent({"embed_url": embedder.url, "prefetch_passes": "several"})
    for number in range(12):
        provider.sync_turn(turn(number), ANSWER)
    remember(provider, standby, primary, "The Atlas project is painted blue", "Mira likes tea")
    before = reads(provider)
    with standby.held():
        forget_elsewhere(primary, database, "The Atlas project is painted blue")
        assert recalled(provider, "Atlas project colour")[0] == "The Atlas project is painted blue"
        assert "painted blue" in provider.prefetch("Which colour is the Atlas project painted in?")
        assert recalled(provider, '"painted blue" Atlsa', scope="all", since="2020-01-01", target="memory")
        assert recalled(provider, turn(3), tool="recall_conversation", around=True, role="user", offset=1)
        assert recalled(provider, turn(4), tool="recall_conversation", scope="session")
        assert runtime_of(provider).searcher.before_session(theme, "session-2", "", limit=3, sessions=1, deadline_s=5)
    answered, by_primary = reads(provider)
    assert (answered - before[0] >= 6, by_primary) == (True, before[1]), told(provider)
    assert told(provider)["replica_failures"] == 0, "a standby refuses nothing that recall asks"
    until(lambda: recalled(provider, "Atlas project colour")[:1] != ["The Atlas project is painted blue"])
    assert records(logging.WARNING) == []


def test_need_30_own_writes_are_found_before_the_replica_has_them(
    agent: Callable[..., PgvectorMemoryProvider], primary: OwnPostgres, standby: Standby, database: Database
) -> None:
    provider = agent({"tools": ["remember", "forget"]})
    other = agent(gateway_session_key="another theme of this process")
    remember(provider, standby, primary, "The Borealis server is in Oslo")
    remember(other, standby, primary, "The Cygnus server is in Rome")
    with standby.held():
        answer = called(provider, "remember", {"content": "The Borealis backup is in Bergen", "sync": True})
        assert answer["state"] == "stored", answer
        assert "The Borealis backup is in Bergen" in recalled(provider, "Borealis backup")
        assert called(provider, "recall_memory", {"query": "Borealis", "scope": "all"})["count"] == 2
        (found,) = called(provider, "recall_memory", {"query": "Borealis Oslo", "limit": 1})["results"]
        called(provider, "forget", {"id": found["id"]})
        assert recalled(provider, "Borealis server Oslo") == ["The Borealis backup is in Bergen"]
        forget_elsewhere(primary, database, "The Cygnus server is in Rome")
        assert recalled(other, "Cygnus server") == ["The Cygnus server is in Rome"], "other themes need not wait"
    standby.caught_up(primary)
    before = reads(provider)[0]
    until(lambda: recalled(provider, "Borealis") and reads(provider)[0] > before, 20, "the replica to be asked again")


def test_need_30_what_others_wrote_is_found_within_the_limit(
    agent: Callable[..., PgvectorMemoryProvider], make_provider: MakeProvider, primary: OwnPostgres,
    standby: Standby, theme: str, records: Records, tmp_path: Path,
) -> None:  # fmt: skip
    provider = agent({"read_max_lag_s": 1})
    (tmp_path / "elsewhere").mkdir()
    other = make_provider(hermes_home=str(tmp_path / "elsewhere"), gateway_session_key=theme)
    with standby.held():
        remember_elsewhere = "The Draco release is on Friday"
        other.on_memory_write("add", "memory", remember_elsewhere)
        landed(other)
        since = time.monotonic()
        until(lambda: recalled(provider, "Draco release") == [remember_elsewhere], 20, "the primary's answer")
        assert time.monotonic() - since < 10, "one second, on a busy machine"
        until(lambda: told(provider)["replica"] == "away", 20, "the lag to be noticed")
        assert told(provider)["replica_lag_s"] >= 1
        assert recalled(provider, "Draco release") == [remember_elsewhere]
    until(lambda: told(provider)["replica"] == "up", 20, "the replica to catch up")
    before = reads(provider)[0]
    assert recalled(provider, "Draco release") == [remember_elsewhere]
    until(lambda: recalled(provider, "Draco release") and reads(provider)[0] > before, 20, "the replica's answer")
    (said,) = records(logging.WARNING)
    assert DISABLED in said and "behind the primary (read_max_lag_s is 1)" in said
    assert "hermes-pgvector: the replica answers again" in records(logging.INFO)


@pytest.mark.parametrize("fault", ["deaf", "stop", "cut"])
def test_need_30_a_replica_that_fails_costs_no_answer(
    agent: Callable[..., PgvectorMemoryProvider], primary: OwnPostgres, standby: Standby, network: TcpProxy,
    records: Records, fault: str,
) -> None:  # fmt: skip
    provider = agent({"prefetch_deadline_s": 4})
    remember(provider, standby, primary, "The Eridanus key is under the mat", "The Eridanus door is green")
    assert recalled(provider, "Eridanus")
    getattr(network, fault)()
    since = time.monotonic()
    assert "under the mat" in provider.prefetch("Where is the Eridanus key?")
    assert time.monotonic() - since < 4 + LATE_S, "within the same deadline"
    assert recalled(provider, "Eridanus door")
    assert reads(provider)[1] >= 1 or fault == "cut"
    if fault != "cut":
        for _ in range(5):
            assert recalled(provider, "Eridanus door")
        assert len([line for line in records(logging.WARNING) if DISABLED in line]) == 1, records(logging.WARNING)
    assert len(records(logging.WARNING)) <= 1
    network.start()
    before = reads(provider)[0]
    until(lambda: recalled(provider, "Eridanus door") and reads(provider)[0] > before, 20, "the replica's answer")


def test_need_30_the_replica_answers_while_the_primary_is_away(
    make_provider: MakeProvider, primary: OwnPostgres, standby: Standby, dsn: str, config: dict[str, Any], theme: str
) -> None:
    with TcpProxy.before(dsn) as way:
        provider = make_provider(config | {"dsn": way.conninfo(dsn)}, gateway_session_key=theme)
        until(lambda: told(provider)["replica"] == "up", 20, "the replica to be found fit")
        remember(provider, standby, primary, "The Fornax lamp is yellow")
        way.stop()
        until(lambda: told(provider)["postgres"] == "down", 20, "the outage to be noticed")
        assert recalled(provider, "Fornax lamp") == ["The Fornax lamp is yellow"]
        assert "yellow" in provider.prefetch("Which colour is the Fornax lamp?")
        way.start()
        provider.on_memory_write("add", "memory", "The Fornax chair is brown")
        landed(provider)
        assert "The Fornax chair is brown" in recalled(provider, "Fornax chair")


def test_need_30_a_conflict_with_replay_goes_to_the_primary(
    agent: Callable[..., PgvectorMemoryProvider], primary: OwnPostgres, standby: Standby, database: Database,
    records: Records,
) -> None:  # fmt: skip
    provider = agent()
    admin = primary.admin_of(database)
    tell(admin, "CREATE TABLE in_the_way AS SELECT 1 AS n; GRANT SELECT ON in_the_way TO hermes")
    standby.caught_up(primary)
    on_replica: list[bool] = []
    first, second = runtime_of(provider).backend.sources(None)

    def drop_meanwhile() -> None:
        # Only then: between two statements the server ends the connection instead.
        asleep = "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        until(lambda: standby.tell(asleep), 20, "the statement that will be in the way")
        tell(admin, "DROP TABLE in_the_way")

    with (
        ThreadPoolExecutor() as beside,
        pytest.raises(StoreConflict),
        first.reading(30, Pipeline()) as conn,
        conn.transaction(),
    ):
        on_replica += conn.execute("SELECT pg_is_in_recovery()").fetchone()
        conn.execute("SELECT * FROM in_the_way")
        dropping = beside.submit(drop_meanwhile)
        conn.execute("SELECT pg_sleep(25)")
    dropping.result()
    with second.reading(20, Pipeline()) as conn:
        on_replica += conn.execute("SELECT pg_is_in_recovery()").fetchone()
    assert on_replica == [True, False]
    assert (told(provider)["replica_conflicts"], told(provider)["replica"]) == (1, "up")
    assert records(logging.WARNING) == []


WRONG = {
    "the primary": "it is not a replica, it accepts writes",
    "another database": "it holds another database than the primary",
    "no tables": "its database holds no memory tables",
    "nobody there": "Connection refused",
    "unreadable": "`read_dsn` cannot be read",
    "no such role": "pg_hba.conf",
}


@pytest.fixture(scope="module")
def other_database(pair: tuple[OwnPostgres, Standby], database: Database) -> Database:
    made = pair[0].database()
    pair[1].caught_up(pair[0])
    return made


@pytest.mark.parametrize("which", WRONG)
def test_need_30_what_is_no_replica_of_the_database_is_not_used(
    make_provider: MakeProvider, standby: Standby, dsn: str, other_database: Database, theme: str, home: Path,
    records: Records, capsys: pytest.CaptureFixture[str], which: str,
) -> None:  # fmt: skip
    read_dsn = {
        "the primary": dsn,
        "another database": standby.conninfo(other_database.dsn),
        "no tables": make_conninfo(standby.conninfo(dsn), dbname="postgres"),
        "nobody there": "host=127.0.0.1 port=1 dbname=x password=geheim",
        "unreadable": "host= port=nowhere = password=geheim",
        "no such role": make_conninfo(standby.conninfo(dsn), user="nobody_here"),
    }[which]
    provider = make_provider({"read_dsn": read_dsn}, gateway_session_key=theme)
    provider.on_memory_write("add", "memory", "The Gemini tower has nine floors")
    landed(provider)
    assert recalled(provider, "Gemini tower") == ["The Gemini tower has nine floors"]
    until(lambda: told(provider)["replica"] == "away", 20, "the replica to be looked at")
    assert recalled(provider, "Gemini tower") == ["The Gemini tower has nine floors"]
    assert reads(provider)[0] == 0
    (said,) = [line for line in records(logging.WARNING) if DISABLED in line]
    assert WRONG[which] in said and "geheim" not in said
    (home / "config.yaml").write_text(
        yaml.safe_dump({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS, "read_dsn": read_dsn}}})
    )
    main(["doctor", "--json", "--hermes-home", str(home)])
    out = capsys.readouterr().out
    (line,) = [check for check in json.loads(out)["checks"] if check["name"] == "replica"]
    assert (line["state"], WRONG[which] in line["said"], "geheim" in out) == ("fail", True, False), line


def test_need_30_a_promoted_replica_is_not_used_any_more(
    make_provider: MakeProvider, primary: OwnPostgres, dsn: str, theme: str, records: Records
) -> None:
    with standby_of(primary) as second:
        second.caught_up(primary)
        provider = make_provider({"read_dsn": second.conninfo(dsn)}, gateway_session_key=theme)
        until(lambda: told(provider)["replica"] == "up", 20, "the replica to be found fit")
        remember(provider, second, primary, "The Hydra meeting is at nine")
        assert recalled(provider, "Hydra meeting") == ["The Hydra meeting is at nine"]
        second.tell("SELECT pg_promote()")
        meeting = "UPDATE memory_entries SET content = 'The Hydra meeting is at ten' WHERE content LIKE '%%Hydra%%'"
        tell(second.conninfo(dsn), meeting)
        assert recalled(provider, "Hydra meeting") == ["The Hydra meeting is at nine"]
        (said,) = records(logging.WARNING)
        assert DISABLED in said and "if it was promoted, set plugins.pgvector.dsn to it" in said
        provider.shutdown()


def test_need_30_a_replica_behind_pgbouncer_and_for_some_themes_only(
    make_provider: MakeProvider, primary: OwnPostgres, standby: Standby, other_database: Database,
    embedder: ScriptedEmbedder, records: Records,
) -> None:  # fmt: skip
    with connect(primary.admin_of(other_database)) as admin:
        row_security.enable(admin)
        row_security.revoke(admin, "hermes", [])
        row_security.grant(admin, "hermes", ["marketing", "sales"])
    with pgbouncer(standby.admin_dsn) as pooler:
        config = {
            "dsn": other_database.dsn,
            "read_dsn": pooler.conninfo(standby.conninfo(other_database.dsn)),
            "embed_url": embedder.url,
        }
        providers = [make_provider(config, gateway_session_key=theme) for theme in ("marketing", "sales")]
        for provider, said in zip(providers, ("The Indus budget is small", "The Indus price is high"), strict=True):
            until(lambda each=provider: told(each)["replica"] == "up", 20, "the replica")
            remember(provider, standby, primary, said)
        before = reads(providers[0])
        for _ in range(8):  # a statement is prepared from its sixth time on
            assert recalled(providers[0], "Indus") == ["The Indus budget is small"]
            assert recalled(providers[1], "Indus") == ["The Indus price is high"]
            assert len(recalled(providers[0], "Indus", scope="all")) == 2
        assert (reads(providers[0])[0] - before[0], reads(providers[0])[1]) == (24, before[1]), told(providers[0])
        assert records(logging.WARNING) == []


def test_need_30_operators_see_the_replica_and_search_it(
    agent: Callable[..., PgvectorMemoryProvider], primary: OwnPostgres, standby: Standby, database: Database,
    config: dict[str, Any], theme: str, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("hermes_memory_pgvector.capture.writer._REPORT_S", 0.0)
    section = {"dsn": database.dsn, "dims": DIMS, **config}
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": section}}))

    def shown(*arguments: str) -> str:
        main([*arguments, "--hermes-home", str(home)])
        return capsys.readouterr().out

    provider = agent()
    remember(provider, standby, primary, "The Kepler desk is oak")
    assert recalled(provider, "Kepler desk")
    looked_up = "SELECT sum(idx_scan + seq_scan) FROM pg_stat_user_tables WHERE relname = 'memory_entries'"
    there = Database(standby.conninfo(database.dsn))
    before = there.column(looked_up)
    assert "The Kepler desk is oak" in shown("search", "Kepler desk", "--theme", theme)
    until(lambda: there.column(looked_up) > before, 20, "the replica to have answered")
    with standby.held():
        forget_elsewhere(primary, database, "The Kepler desk is oak")
        (line,) = [each for each in json.loads(shown("doctor", "--json"))["checks"] if each["name"] == "replica"]
        assert (line["state"], "did not catch up" in line["said"]) == ("fail", True), line
    standby.caught_up(primary)
    (line,) = [each for each in json.loads(shown("doctor", "--json"))["checks"] if each["name"] == "replica"]
    assert (line["state"], "follows the primary" in line["said"]) == ("ok", True), line
    runtime_of(provider).writer.flush(5)
    until(lambda: "replica up" in shown("status"), 20, "the report")
    assert "it answered 1 question" in shown("status")
    metrics = shown("metrics")
    assert 'hermes_pgvector_replica_reads_total{server="replica"} 1.0' in metrics
    assert "hermes_pgvector_replicas_failing 0.0" in metrics


def test_need_30_a_replica_without_a_primary_is_refused_in_words() -> None:
    settings, warnings = load({"read_dsn": "postgresql://u:geheim@h/d"}, {})
    (said,) = warnings
    assert settings.read_dsn == "" and "`dsn` names none" in said and "geheim" not in said
    both, _ = load({"dsn": "host=a"}, {"HERMES_PGVECTOR_READ_DSN": "postgresql://u:geheim@h/d"})
    assert both.read_dsn.endswith("@h/d") and "geheim" not in repr(both) and "postgresql://u:***@h/d" in repr(both)
