"""The provider in hosts newer than 0.19.0, whose interface stands in tests/support/newer_host.py."""

from __future__ import annotations

import inspect
import json
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.redaction import identity_digest
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, landed
from tests.support.newer_host import (
    CHECKPOINT_ATTRIBUTE,
    HOOKS,
    PREFETCH_SPILLS_CHARS,
    RECALL_STATUS,
    handed,
    recall_line,
)


def remember(provider: PgvectorMemoryProvider, *contents: str) -> None:
    for content in contents:
        provider.on_memory_write("add", "memory", content, metadata={})
    landed(provider)


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_takes_what_a_newer_host_passes(hook: str) -> None:
    positional, named = [], []
    for name in HOOKS[hook]:
        (named if named or name == "*" else positional).append(name)

    signature = inspect.signature(getattr(PgvectorMemoryProvider(), hook))

    signature.bind(*positional, **{name: None for name in named if name != "*"})
    ours = [name for name in signature.parameters if name in positional]
    assert ours == positional


def test_the_user_is_told_what_the_last_message_got_and_nothing_older(make_provider: MakeProvider) -> None:
    provider = make_provider()
    assert recall_line(provider) == ""
    remember(provider, "The Atlas launch is on 3 May", "The Atlas budget is 40,000 euros")

    block = provider.prefetch("When is the Atlas launch, and what is its budget?", session_id="session-1")

    status = provider.recall_status()
    assert status is not None
    assert status.count == block.count("\n- [") == 2
    assert all(hasattr(status, name) for name in RECALL_STATUS)
    assert provider.recall_status() is None, "a message without a prefetch would be told the same again"
    provider.prefetch("And when is the Atlas launch?")
    provider.prefetch("thanks")
    assert recall_line(provider) == ""


def test_an_inspected_session_shows_its_tools_and_starts_nothing(
    make_provider: MakeProvider, dsn: str, home: Path
) -> None:
    config = {"dsn": dsn, "dims": DIMS, "tools": "all", "hot_tokens": 200}
    live = make_provider(config)
    before = set(threading.enumerate())
    inspected = PgvectorMemoryProvider(config)

    inspected.initialize_for_inspection(
        "session-1", hermes_home=str(home), platform="api_server", gateway_session_key="marketing"
    )

    assert inspected.runtime is None
    assert set(threading.enumerate()) <= before
    assert inspected.system_prompt_block() == live.system_prompt_block()
    assert json.dumps(inspected.get_tool_schemas()) == json.dumps(live.get_tool_schemas())
    assert inspected.prefetch("Where does the Atlas release plan live?") == ""
    assert "error" in called(inspected, "recall_memory", {"query": "atlas"})
    inspected.shutdown()


def test_the_host_can_say_why_memory_is_off(home: Path) -> None:
    (home / "config.yaml").write_text("plugins: [\n", encoding="utf-8")
    provider = PgvectorMemoryProvider()

    assert not provider.is_available()
    assert "config.yaml" in provider.unavailable_reason()
    (home / "config.yaml").write_text("plugins: {}\n", encoding="utf-8")
    assert provider.is_available()
    assert provider.unavailable_reason() == ""


def test_a_prefetch_for_another_session_knows_what_that_one_was_shown(make_provider: MakeProvider) -> None:
    provider = make_provider()
    remember(provider, "The Atlas launch is on 3 May")
    question = "When is the launch of Atlas?"

    assert "3 May" in provider.prefetch(question, session_id="session-1")
    assert "3 May" not in provider.prefetch(question, session_id="session-1"), "shown before"
    assert "3 May" not in provider.prefetch(question), "the session that initialize named"
    assert "3 May" in provider.prefetch(question, session_id="session-2")
    assert "3 May" not in provider.prefetch(question, session_id="session-2")


def test_a_turn_is_its_authors_in_a_chat_of_several(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(platform="telegram", chat_id="group-1", user_id="ada", user_id_alt="ada-for-good")
    authors: list[Any] = [
        None,
        {"id": "ada", "name": "Ada"},
        {"id": "bob", "name": "Bob", "is_bot": False},
        {"id": ""},
        "x",
    ]

    for number, author in enumerate(authors):
        optional = {"messages": [], "turn_author": author}
        said = f"Question number {number} about the Atlas release plan"
        provider.sync_turn(said, "In the wiki.", session_id="session-1", **handed(provider.sync_turn, optional))
    landed(provider)

    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT metadata ->> 'user' FROM conversations WHERE role = 'user' ORDER BY content"
        ).fetchall()
    ada, bob = (identity_digest(name, "") for name in ("ada-for-good", "bob"))
    assert [user for (user,) in rows] == [ada, ada, bob, ada, ada]


def test_no_compression_waits_for_what_we_do_not_promise(make_provider: MakeProvider) -> None:
    provider = make_provider()
    assert getattr(provider, CHECKPOINT_ATTRIBUTE) == 1
    optional = {"require_checkpoint": True}
    assert (
        provider.on_pre_compress([{"role": "user", "content": "x"}], **handed(provider.on_pre_compress, optional)) == ""
    )


def test_a_prefetch_is_never_so_long_that_a_host_puts_it_into_a_file(make_provider: MakeProvider) -> None:
    provider = make_provider()
    remember(provider, *(f"Atlas fact {number}: " + f"the launch plan says {number} " * 300 for number in range(12)))

    block = provider.prefetch("What does the Atlas launch plan say?", session_id="session-1")

    assert block
    assert len(block) < PREFETCH_SPILLS_CHARS / 2
    assert Settings().prefetch_max_tokens * 4 < PREFETCH_SPILLS_CHARS, "about four characters a token"
