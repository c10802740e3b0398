"""Memories that replace each other, through an outage and the death of their process."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.limits import LANDED_TIMEOUT_S
from tests.support.memory import called, landed
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import until

STRUCTURED = {"tools": ["remember"], "structure": True}
STATES = "SELECT concat_ws(' ', state, kind, subject, content) FROM memory_entries ORDER BY 1"


def test_need_43_what_was_accepted_before_a_kill_replaces_in_the_order_in_which_it_was_said(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, dsn: str, database: Database, home: Path
) -> None:
    proxy.stop()
    with AgentProcess({"dsn": proxied, "dims": DIMS, **STRUCTURED}, home) as killed:
        for number in range(20):
            answer = killed.call(
                "handle_tool_call",
                "remember",
                {"content": f"Tokens last {number} days", "kind": "decision", "subject": "auth", "scope": "pilot"},
            )
            assert json.loads(answer)["state"] == "accepted"
        assert json.loads(killed.call("handle_tool_call", "remember", {"content": "?[cache]: which?"}))
        killed.kill()
    # What another host says meanwhile was said later, and stays current though it is there first.
    elsewhere = make_provider({"dsn": dsn, **STRUCTURED})
    said = {"content": "Tokens last a month", "kind": "decision", "subject": "auth", "scope": "pilot", "sync": True}
    assert called(elsewhere, "remember", said)["state"] == "stored"

    proxy.start()
    landed(make_provider({"dsn": proxied, **STRUCTURED}))

    expected = sorted(
        [
            "active decision auth Tokens last a month",
            "active question cache ?[cache]: which?",
            *(f"superseded decision auth Tokens last {number} days" for number in range(20)),
        ]
    )
    until(lambda: len(database.column(STATES)) == len(expected), LANDED_TIMEOUT_S, "the writes of the dead process")
    assert sorted(database.column(STATES)) == expected
    (times,) = database.column("SELECT count(*) FROM memory_history WHERE action = 'added'")
    assert times == len(expected)
