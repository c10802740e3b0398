"""The hot block in the system prompt: what holds in a theme, the same for a whole session, and never waited for."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common import row_security
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.domain.chunks import estimate_tokens
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall.hot import HEADING
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.pool import connect
from tests.conftest import DIMS
from tests.conftest import MakeProvider as MakeAnyProvider
from tests.support.hostile import HOSTILE
from tests.support.memory import called, landed, runtime_of
from tests.support.row_security import let_tenants_in
from tests.support.slow_proxy import SlowProxy
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import until

CHAT = {
    "platform": "telegram", "gateway_session_key": "agent:main:telegram:dm:4915112345678", "chat_type": "dm",
    "chat_id": "4915112345678", "user_id": "4915112345678", "agent_identity": "marketing",
}  # fmt: skip


MakeProvider = Callable[..., PgvectorMemoryProvider]


@pytest.fixture
def make_provider(make_provider: MakeAnyProvider) -> MakeProvider:
    """Makes providers that wait for the block, however busy the machine is, unless the test says otherwise."""

    def make(config: dict[str, Any] | None = None, **kwargs: Any) -> PgvectorMemoryProvider:
        return make_provider({"hot_deadline_s": 5.0} | (config or {}), **kwargs)

    return make


def keep(dsn: str, content: str, theme: str = "marketing", *, days: float = 0.0, **columns: object) -> int:
    """Store a memory of so many days ago with these columns; returns its id."""
    if "kind" in columns:
        columns = {"state": "active", "subject": content.split(maxsplit=1)[0].lower()} | columns
    names = "".join(f", {name}" for name in columns)
    with psycopg.connect(dsn, autocommit=True) as conn:
        statement = (
            f"INSERT INTO memory_entries (agent_identity, target, content, updated_at{names}) "
            f"VALUES (%s, 'memory', %s, now() - make_interval(secs => %s){', %s' * len(columns)}) RETURNING id"
        )
        row = conn.execute(statement.encode(), (theme, content, days * 86400, *columns.values())).fetchone()
    assert row is not None
    return int(row[0])


def say(dsn: str, theme: str, *contents: str, days: float = 0.0) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for content in contents:
            conn.execute(
                "INSERT INTO conversations (session_id, agent_identity, role, content, ts) "
                "VALUES ('s', %s, 'user', %s, now() - make_interval(secs => %s))",
                (theme, content, days * 86400),
            )


def hot_lines(provider: PgvectorMemoryProvider) -> list[str]:
    """The lines of the hot block in the system prompt."""
    runtime_of(provider).backend.bring_up()
    _, found, block = provider.system_prompt_block().partition(f"\n{HEADING}\n")
    return block.splitlines() if found else []


def test_the_prompt_holds_what_is_pinned_and_what_holds(make_provider: MakeProvider, dsn: str) -> None:
    keep(dsn, "C[db.id]: UUID, never a serial", kind="constraint", subject="db.id")
    keep(dsn, "JWT for 7 days", kind="decision", subject="auth", scope="checkout")
    keep(dsn, "The office closes at six.", pinned=True)
    keep(dsn, "Ana likes tea", kind="preference", subject="tea")
    keep(dsn, "The deployment is on Thursday")
    keep(dsn, "Port 5433", kind="value", subject="db.port", state="archived")
    keep(dsn, "Port 5434", kind="value", subject="db.port", days=-1, expires_at="2020-01-01")
    keep(dsn, "Which queue?", kind="question", subject="queue", state="closed")
    keep(dsn, "Sales never call on Sundays", "sales", kind="constraint", subject="calls")
    assert hot_lines(make_provider()) == [
        "C[db.id]: UUID, never a serial",
        "D[auth @checkout]: JWT for 7 days",
        "- The office closes at six.",
    ]


def test_what_is_remembered_in_the_notation_is_in_the_next_sessions_prompt(make_provider: MakeProvider) -> None:
    config = {"tools": ["remember"], "structure": True}
    provider = make_provider(config)
    for content, more in (
        ("C[db.id]: UUID, never a serial", {}),
        ("D[auth]: JWT for 7 days", {"scope": "checkout"}),
        ("V[srv.prod]: api.example.com", {}),
        ("V[srv.prod]: api.example.org", {}),
        ("?[queue]: which one?", {}),
        ("The office closes at six.", {"pinned": True}),
    ):
        assert called(provider, "remember", {"content": content, "sync": True} | more)["id"]
    assert hot_lines(make_provider(config, session_id="session-2")) == [
        "C[db.id]: UUID, never a serial",
        "?[queue]: which one?",
        "D[auth @checkout]: JWT for 7 days",
        "V[srv.prod]: api.example.org",
        "- The office closes at six.",
    ]
    for done in ("✓[checkout]: deployed", "✓[queue]"):
        called(provider, "remember", {"content": done, "sync": True})
    assert [line[:2] for line in hot_lines(make_provider(config, session_id="session-3"))] == ["C[", "V[", "- "]


def test_it_stays_the_same_for_a_session_and_the_next_one_sees_what_changed(
    make_provider: MakeProvider, dsn: str
) -> None:
    keep(dsn, "Tokens last 7 days", kind="value", subject="auth", days=1)
    first = make_provider()
    assert hot_lines(first) == ["V[auth]: Tokens last 7 days"]
    keep(dsn, "Tokens last 6 hours", kind="value", subject="auth")
    assert hot_lines(first) == ["V[auth]: Tokens last 7 days"]
    assert hot_lines(make_provider()) == ["V[auth]: Tokens last 7 days"], "another instance of the same session"
    assert hot_lines(make_provider(session_id="session-2")) == ["V[auth]: Tokens last 6 hours"]
    first.on_session_switch("session-3", parent_session_id="session-1", reset=True)
    assert hot_lines(first) == ["V[auth]: Tokens last 6 hours"]


def test_it_costs_nothing_where_nothing_is_pinned_or_structured(make_provider: MakeProvider, dsn: str) -> None:
    keep(dsn, "The deployment is on Thursday")
    before = PgvectorMemoryProvider({"dsn": dsn, "dims": DIMS}).system_prompt_block()
    provider = make_provider()
    runtime_of(provider).backend.bring_up()
    assert provider.system_prompt_block() == before


def test_it_takes_one_round_trip_a_session_and_one_more_when_it_is_nearly_full(
    make_provider: MakeProvider, direct_dsn: str
) -> None:
    numbers = itertools.count()
    with SlowProxy.before(direct_dsn) as way:
        provider = make_provider({"dsn": way.conninfo(direct_dsn), "bulk_sync_on_init": False})
        landed(provider)

        def taken(*, again: bool = False) -> int:
            """Of several prompts the least: the process has other things to write as well."""
            counted = []
            for _ in range(4):
                if not again:
                    provider.on_session_switch(f"asks-{next(numbers)}", reset=True)
                before = way.trips
                provider.system_prompt_block()
                counted.append(way.trips - before)
            return min(counted)

        until(lambda: taken() == 1, what="one round trip")
        for number in range(20):
            keep(direct_dsn, f"Port {number} is open", kind="value", subject=f"port.{number}", scope="firewall")
        until(lambda: taken() == 2, what="two round trips")
        assert taken(again=True) == 0


def test_a_role_that_is_held_to_its_themes_gets_their_block_and_no_other(
    make_provider: MakeProvider, postgres: EmbeddedServer, admin_dsn: str
) -> None:
    let_tenants_in(postgres)
    with connect(admin_dsn) as conn:
        row_security.enable(conn)
        row_security.grant(conn, "tenant_marketing", ["marketing"])
    for theme in ("marketing", "sales"):
        keep(admin_dsn, f"Tokens of {theme} last 7 days", theme, kind="value", subject="auth", scope="login")
    config = {"dsn": make_conninfo(admin_dsn, user="tenant_marketing"), "hot_tokens": 60}
    assert hot_lines(make_provider(config)) == ["V[auth @login]: Tokens of marketing last 7 days"]
    assert hot_lines(make_provider(config, gateway_session_key="sales")) == []


@pytest.mark.parametrize("config", [{"hot_tokens": 0}, {"recall_off": ["marketing"]}])
def test_it_can_be_turned_off(make_provider: MakeProvider, dsn: str, config: dict[str, Any]) -> None:
    keep(dsn, "Tokens last 7 days", kind="value")
    assert hot_lines(make_provider(config)) == []


def test_a_chat_gets_what_holds_in_the_theme_of_its_memories(make_provider: MakeProvider, dsn: str) -> None:
    keep(dsn, "Tokens last 7 days", "marketing", kind="value", subject="auth")
    assert hot_lines(make_provider(**CHAT)) == ["V[auth]: Tokens last 7 days"]
    assert hot_lines(make_provider({"messaging_theme": "chat"}, **CHAT)) == []


def test_no_stored_text_breaks_out_of_its_line(make_provider: MakeProvider, dsn: str) -> None:
    for number, hostile in enumerate(HOSTILE):
        told = hostile.replace("\0", "").encode("utf-8", "replace").decode()
        keep(dsn, f"Walrus {number} {told}", kind="value", subject=f"s{number} {told}"[:200])
    lines = hot_lines(make_provider({"hot_tokens": 4000}))
    assert len(lines) == len(HOSTILE)
    assert all(line.startswith("V[s") for line in lines)


def test_scopes_cool_and_are_open_again_when_they_are_spoken_of(make_provider: MakeProvider, dsn: str) -> None:
    keep(dsn, "Carts expire after one hour " + "x" * 100, kind="value", subject="cart", scope="Web-Shop", days=40)
    keep(dsn, "Invoices are due in 30 days " + "x" * 100, kind="value", subject="invoice", scope="billing", days=2)
    tight = {"hot_tokens": 135}
    assert [line[:24] for line in hot_lines(make_provider(tight))] == ["V[invoice @billing]: Inv"]
    say(dsn, "sales", "The web-shop is down")
    say(dsn, "marketing", "What became of the billing?", days=30)
    assert len(hot_lines(make_provider(tight, session_id="session-2"))) == 1
    say(dsn, "marketing", "Let us look at the web-shop once more, it's down")
    lines = hot_lines(make_provider(tight, session_id="session-3"))
    assert [line[:10] for line in lines] == ["V[invoice ", "V[cart @We"]
    say(dsn, "marketing", *(f"Something else, number {number}" for number in range(6)))
    busy = tight | {"hot_scope_turns": 5}
    assert hot_lines(make_provider(busy, session_id="session-4")) == []


def test_a_prompt_does_not_wait_for_a_server_that_says_nothing(make_provider: MakeProvider, direct_dsn: str) -> None:
    keep(direct_dsn, "Tokens last 7 days", kind="value", subject="auth")
    with TcpProxy.before(direct_dsn) as proxy:
        provider = make_provider({"dsn": proxy.conninfo(direct_dsn), "hot_deadline_s": 0.3})
        runtime_of(provider).backend.bring_up()
        proxy.deaf()
        started = time.monotonic()
        block = provider.system_prompt_block()
        assert time.monotonic() - started < 2.0
        assert HEADING not in block and "recall_memory" in block
        assert runtime_of(provider).stats()["hot_block_failures"] == 1
        proxy.start()
        assert provider.system_prompt_block() == block, "the same for the whole session"


def test_status_tells_the_pressure_of_each_theme(dsn: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    section = {"dsn": dsn, "dims": DIMS, "hot_tokens": 100}
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": section}}))
    old = keep(dsn, "Carts expire " + "x" * 100, "shop", kind="value", subject="cart", days=3)
    keep(dsn, "Invoices are due " + "x" * 100, "shop", kind="value", subject="invoice")
    keep(dsn, "Tea at four", "sales", pinned=True)
    keep(dsn, "The deployment is on Thursday")
    assert main(["status", "--json", "--hermes-home", str(home)]) == 0
    sales, shop = json.loads(capsys.readouterr().out)["database"]["hot"]
    assert (sales["theme"], sales["lines"], sales["cold"]) == ("sales", 1, [])
    assert sales["tokens"] >= estimate_tokens(f"{HEADING}\n- Tea at four") and sales["of_tokens"] == 100
    assert (shop["theme"], shop["lines"], shop["cold"]) == ("shop", 1, [old])
    assert shop["pressure"] > 1
    assert main(["status", "--hermes-home", str(home)]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("hot ")]
    assert told[0].startswith("hot        shop: ") and "of 100 tokens in 1 line, pressure 1" in told[0]
    assert told[0].endswith("; 1 went cold")
    assert told[1].startswith("hot        sales: ")
