"""Sessions that end, come back and are compressed: every turn is stored once."""

from __future__ import annotations

from tests.conftest import MakeProvider
from tests.support.memory import landed, recalled
from tests.support.stored import Database

TURNS = [
    (
        f"Question {number}: what did we decide about the rollout of service {number}?",
        f"Service {number} goes out in week {number}, behind a flag, with a rollback plan.",
    )
    for number in range(10)
]
TRANSCRIPT = [
    {"role": role, "content": content}
    for turn in TURNS
    for role, content in zip(("user", "assistant"), turn, strict=True)
]


def _said(dsn: str) -> list[str]:
    return Database(dsn).column("SELECT content FROM conversations ORDER BY id")


def test_trap_06_resuming_a_session_stores_nothing_again(make_provider: MakeProvider, dsn: str) -> None:
    for _ in range(3):
        provider = make_provider(session_id="long-session")
        for user, assistant in TURNS:
            provider.sync_turn(user, assistant, session_id="long-session", messages=TRANSCRIPT)
        provider.on_session_end(TRANSCRIPT)
        provider.shutdown()
    landed(make_provider())
    assert _said(dsn) == [message["content"] for message in TRANSCRIPT]


def test_trap_06_transcripts_at_the_end_and_at_compression_add_no_rows(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(session_id="long-session")
    for user, assistant in TURNS:
        provider.sync_turn(user, assistant, session_id="long-session")
        assert provider.on_pre_compress(TRANSCRIPT) == ""
        provider.on_session_end(TRANSCRIPT)
        provider.on_session_switch("long-session", reason="compression")
        provider.on_session_end(messages=TRANSCRIPT)
    landed(provider)
    assert _said(dsn) == [message["content"] for message in TRANSCRIPT]
    assert Database(dsn).column("SELECT DISTINCT session_id FROM conversations") == ["long-session"]


def test_trap_06_the_same_words_in_another_session_or_theme_are_another_turn(
    make_provider: MakeProvider, dsn: str
) -> None:
    user, assistant = TURNS[0]
    for theme, session in (("marketing", "a"), ("marketing", "b"), ("sales", "a")):
        provider = make_provider(gateway_session_key=theme)
        provider.sync_turn(user, assistant, session_id=session)
        landed(provider)
    assert sorted(Database(dsn).column("SELECT agent_identity || '/' || session_id FROM conversations")) == sorted(
        ["marketing/a", "marketing/b", "sales/a"] * 2
    )


def test_trap_06_a_delegation_is_stored_once(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    for _ in range(3):
        provider.on_delegation("Find the owner of service 7", "Service 7 belongs to Ada", child_session_id="child-1")
    landed(provider)
    assert Database(dsn).column("SELECT role FROM conversations") == ["tool"]
    assert "Service 7 belongs to Ada" in recalled(provider, "owner of service 7", tool="recall_conversation")[0]
