"""What `status` says while Postgres goes and comes back: one thing at a time, and errors with their time and end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.host.setup import status as told_to_the_host
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import landed
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import until

Look = Callable[[], tuple[dict[str, Any], str]]


@pytest.fixture
def look(home: Path, proxied: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Look:
    """What `status` says of a home whose agents tell how they do all the time, for machines and for people."""
    monkeypatch.setattr("hermes_memory_pgvector.capture.writer._REPORT_S", 0.0)
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": proxied, "dims": DIMS}}}))

    def run() -> tuple[dict[str, Any], str]:
        main(["status", "--json", "--hermes-home", str(home)])
        told = json.loads(capsys.readouterr().out)
        assert isinstance(told, dict)
        main(["status", "--hermes-home", str(home)])
        return told, capsys.readouterr().out

    return run


def test_need_40_postgres_is_never_up_and_out_of_reach_in_one_answer(
    make_provider: MakeProvider, proxied: str, proxy: TcpProxy, look: Look, home: Path
) -> None:
    provider = make_provider({"dsn": proxied})
    provider.on_memory_write("add", "memory", "The spare key hangs behind the pot")
    landed(provider)
    told, shown = until(lambda: answer if "Postgres up," in (answer := look())[1] else None, what="a report")
    assert told["database"]["state"] == "up" and "last error" not in shown

    began = datetime.now(UTC).replace(microsecond=0)
    proxy.stop()
    for _ in range(20):  # before and after the agent has found out for itself
        told, shown = look()
        assert told["database"]["state"] == "down" and "out of reach" in shown
        assert "up" not in [process["report"]["postgres"] for process in told["processes"]]
        assert "Postgres up" not in shown

    error = until(lambda: look()[0]["processes"][0]["report"]["last_error"], what="its error in the report")
    told, shown = look()
    report = told["processes"][0]["report"]
    assert began <= datetime.fromisoformat(report["last_error_at"]) <= datetime.now(UTC) + timedelta(seconds=1)
    assert report["last_error_over_at"] == "" and error
    assert re.search(r"last error at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+\d\d:\d\d: ", shown)
    assert "problem" in told_to_the_host(None, home)

    proxy.start()
    provider.on_memory_write("add", "memory", "The campaign starts in May")
    landed(provider)
    until(lambda: look()[0]["processes"][0]["report"]["last_error_over_at"], what="the end of the error")
    told, shown = look()
    assert told["database"]["state"] == "up" and "out of reach" not in shown
    assert re.search(r"last error at .*, over since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", shown)
    assert not {"problem", "last error"} & told_to_the_host(None, home).keys()


def test_need_40_an_error_of_the_endpoint_ends_with_its_recovery(
    make_provider: MakeProvider, proxied: str, look: Look, home: Path, endpoint: ScriptedEmbedder
) -> None:
    endpoint.mode = "http_500"
    provider = make_provider({"dsn": proxied, "embed_url": endpoint.url, "embed_model": "m"})
    provider.on_memory_write("add", "memory", "The spare key hangs behind the pot")
    landed(provider)
    until(lambda: "last error at" in look()[1], what="the endpoint's error")
    assert "last error" in told_to_the_host(None, home)

    endpoint.mode = "ok"
    until(lambda: "over since" in look()[1], 60, "the end of the endpoint's error")
    assert "last error" not in told_to_the_host(None, home)


def test_need_40_a_session_that_goes_on_with_a_password_of_before_is_named(
    make_provider: MakeProvider, proxied: str, look: Look, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a session that runs, the settings are those of its beginning."""
    wrong = make_conninfo(proxied, user="nobody_by_that_name")
    right = (home / "config.yaml").read_text()
    (home / "config.yaml").write_text(right.replace(proxied, wrong))
    make_provider({"dsn": wrong})
    until(lambda: look()[0]["processes"][0]["report"].get("postgres") == "down", what="its report")
    assert "restart it" not in look()[1]

    (home / "config.yaml").write_text(right)
    assert "restart it" in look()[1]
    main(["doctor", "--json", "--hermes-home", str(home)])
    (check,) = [each for each in json.loads(capsys.readouterr().out)["checks"] if each["name"] == "agents"]
    assert "reaches no database" in check["said"] and "restart it" in check["fix"]


def test_need_40_a_database_without_tables_is_not_called_out_of_reach(
    empty_admin_dsn: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": empty_admin_dsn}}}))
    assert main(["status", "--hermes-home", str(home)]) == 1
    shown = capsys.readouterr().out
    assert "database   cannot be used: " in shown and "out of reach" not in shown and "migrate" in shown


def test_need_40_stats_does_not_leave_an_outage_to_be_guessed_from_missing_numbers(
    home: Path, proxied: str, proxy: TcpProxy, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": proxied, "dims": DIMS}}}))

    def stats() -> tuple[int, dict[str, Any], str]:
        code = main(["stats", "--json", "--hermes-home", str(home)])
        said = capsys.readouterr()
        return code, json.loads(said.out), said.err

    code, numbers, warned = stats()
    assert (code, numbers["up"], numbers["memories"], warned) == (0, 1, 0, "")

    proxy.stop()
    code, numbers, warned = stats()
    assert (code, numbers["up"]) == (1, 0) and "memories" not in numbers
    assert warned.startswith("warning: ") and "start Postgres there" in warned
