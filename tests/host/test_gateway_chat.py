"""Chats of a messenger in the real gateway: what is undone there, who learns of it, and what leaves the history."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
import yaml

from tests.support.gateway import Gateway
from tests.support.hermes import HermesHome
from tests.support.model_server import PLAIN_ANSWER, ChatRequest, ModelServer, Reply
from tests.support.signal_server import SignalServer
from tests.support.stored import Database
from tests.support.waiting import until

ADA, BORIS, GROUP = "+4915112345678", "+4915187654321", "aGFyYm91cg=="
KEPT = "The harbour office in Bremerhaven opens at half past seven."
TAKEN_BACK = (
    "The harbour office in Cuxhaven has the door code Wq4711.",
    "The harbour office in Emden has the code Wq4712.",
)
ASKED = "Which harbour office has which opening hours or door code?"
NAMED = ("pier", "crane", "ferry", "lamp", "buoy", "tugboat", "canteen", "lock")

Say = Callable[..., None]


@pytest.fixture
def messenger(active_home: HermesHome) -> Iterator[SignalServer]:
    """A messenger that the home's gateway serves, without questions back."""
    with SignalServer() as server:
        lines = [f"{name}={value}\n" for name, value in server.environment.items()]
        (active_home.path / ".env").write_text("".join(lines), encoding="utf-8")
        config = active_home.read_config()
        config["model"]["context_length"] = 64_000
        config |= {"approvals": {"destructive_slash_confirm": False}, "display": {"busy_input_mode": "queue"}}
        config["compression"] = {"target_ratio": 0.1, "protect_last_n": 2}
        config["memory"] |= {"memory_enabled": False, "user_profile_enabled": False}
        active_home.config_path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        yield server


@pytest.fixture
def say(messenger: SignalServer, gateway: Gateway, database: Database) -> Say:
    """Says something in a chat, and returns when its turn is stored."""

    def said(text: str, *, sender: str = ADA, group: str = "") -> None:
        messenger.say(text, sender=sender, group=group)
        database.wait_for_turn(text)

    return said


def command(messenger: SignalServer, text: str, answer: str) -> None:
    """Has a command carried out; while the turn before it ends, the host refuses some."""
    seen = len(messenger.answers(ADA))

    def replies() -> list[str]:
        return [each for each in messenger.answers(ADA)[seen:] if answer in each or "mid-turn" in each]

    for _ in range(50):
        messenger.say(text, sender=ADA)
        until(replies, 90, f"the answer to {text}")
        if answer in replies()[-1]:
            return
        seen = len(messenger.answers(ADA))
    raise AssertionError(f"the host refuses {text}: {messenger.answers(ADA)[-1]}")


def heard(model: ModelServer, text: str) -> ChatRequest:
    """The agent's request of a turn."""
    (request,) = model.requests_saying(text)
    return request


def test_need_07_what_was_undone_in_a_chat_is_gone_there_and_a_chat_is_its_own(
    messenger: SignalServer, say: Say, gateway: Gateway, model: ModelServer, database: Database
) -> None:
    say(KEPT)
    say(TAKEN_BACK[0])
    command(messenger, "/undo", "Undid 1 turn")
    say(f"{ASKED} Once.")
    say(TAKEN_BACK[1])
    command(messenger, "/undo", "Undid 1 turn")
    command(messenger, "/new", "Session reset")
    say(f"{ASKED} Twice.")
    assert "half past seven" in heard(model, f"{ASKED} Twice.").memory_context, "the session before is recalled at all"
    for again in ("Once.", "Twice."):
        assert "Wq471" not in str(heard(model, f"{ASKED} {again}").messages)
    assert not any(database.themes_of_turn(text) for text in TAKEN_BACK)

    say(f"{ASKED} Boris.", sender=BORIS)
    say(f"{ASKED} All.", group=GROUP)
    assert gateway.post_chat(f"{ASKED} Sales.", key="sales").status == 200
    everywhere = '{"query": "harbour office hours", "scope": "all"}'
    assert gateway.post_chat(f"call: recall_conversation {everywhere}", key="sales", session="tool").status == 200
    for who in ("Boris.", "All.", "Sales."):
        assert "half past seven" not in str(heard(model, f"{ASKED} {who}").messages), who
    results = [text for request in model.requests for text in request.tool_results]
    assert results and "half past seven" not in str(results)


def test_need_38_what_was_asked_again_in_a_chat_is_told_once_and_what_was_undone_before_is_gone(
    messenger: SignalServer, say: Say, model: ModelServer, database: Database
) -> None:
    def again(text: str) -> None:
        seen = len(heard_again())
        messenger.say("/retry", sender=ADA)
        until(lambda: len(heard_again()) > seen and database.themes_of_turn(text), 90, "the message that is repeated")

    def heard_again() -> list[ChatRequest]:
        return model.requests_saying(ASKED)

    model.script = lambda _: Reply(f"After {len(model.requests)} requests I still wait for the harbour office.")
    say(KEPT)
    command(messenger, "/new", "Session reset")
    say("The weather of today is fine in the whole town, as we say here.")
    say(ASKED)
    again(ASKED)
    say(TAKEN_BACK[0])
    command(messenger, "/undo", "Undid 1 turn")
    again(ASKED)
    for request in heard_again():
        assert "half past seven" in request.memory_context
        assert "I still wait" not in request.memory_context and "4711" not in str(request.messages)
    until(lambda: not database.themes_of_turn(TAKEN_BACK[0]), 60, "the end of what was taken back")
    until(lambda: len(database.themes_of_turn(ASKED)) == 1, 60, "the one message that was repeated")


def test_need_07_what_a_compression_took_out_of_a_chats_history_is_recalled(
    messenger: SignalServer, say: Say, model: ModelServer
) -> None:
    model.script = lambda request: Reply(
        PLAIN_ANSWER if request.tool_names else "They spoke of a harbour.", counted=False
    )
    dice = random.Random(7)
    for name in NAMED:
        padding = " ".join("".join(dice.choices("abcdefgh", k=7)) for _ in range(3800))
        say(f"The {name} of the northern harbour is seen to by Ingrid {name}son. {padding}")
    say("Who sees to the pier of the northern harbour?")
    asked = heard(model, "Who sees to the pier")
    assert "Ingrid pierson" not in str(asked.messages[:-1]), "the history was compressed"
    assert "Ingrid pierson" in asked.memory_context
