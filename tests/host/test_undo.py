"""`/undo` and `/retry` in the host's own chat: say, undo, ask."""

from __future__ import annotations

from tests.support.hermes import HermesHome, describe
from tests.support.model_server import ModelServer, Reply
from tests.support.stored import Database

KEPT = "The harbour office in Bremerhaven opens at half past seven."
TAKEN_BACK = "The harbour office in Cuxhaven has the door code 4711."
ASKED = "Which harbour office has which opening hours or door code?"
CHAT = """
import sys
from cli import HermesCLI

chat = HermesCLI()
kept, taken_back, asked = sys.argv[1:]
chat.chat(kept)
chat.chat(taken_back)
chat.undo_last(prefill=False)  # what /undo does once it was confirmed
chat.chat(asked)
chat.agent.shutdown_memory_provider(chat.conversation_history)
"""


def test_need_38_what_was_undone_is_not_recalled_in_the_next_message_or_the_next_session(
    active_home: HermesHome, model: ModelServer, database: Database
) -> None:
    chatted = active_home.host_code(CHAT, KEPT, TAKEN_BACK, ASKED)
    assert chatted.returncode == 0, describe(chatted)
    assert "Undid 1 turn" in chatted.stdout, describe(chatted)
    assert database.themes_of_turn(KEPT) and not database.themes_of_turn(TAKEN_BACK)

    later = active_home.hermes("-z", ASKED)
    assert later.returncode == 0, describe(later)
    requests = model.requests_saying(ASKED)
    assert len(requests) == 2
    assert not any("4711" in str(request.messages) for request in requests)
    assert "half past seven" in requests[1].memory_context, "the session before is recalled at all"


RETRIED = """
import sys
from cli import HermesCLI

chat = HermesCLI()
kept, asked = sys.argv[1:]
chat.chat(kept)
chat.new_session(silent=True)
chat.chat(asked)
chat.chat(chat.retry_last())  # what /retry does
chat.agent.shutdown_memory_provider(chat.conversation_history)
"""


def test_need_38_an_answer_that_was_asked_for_again_is_not_kept_and_the_next_one_has_the_same_memories(
    active_home: HermesHome, model: ModelServer, database: Database
) -> None:
    thoughts = ("My first thought is that the doors are locked.", "My second thought is that the doors are open.")
    model.script = lambda _: Reply(thoughts[len(model.requests_saying(ASKED)) > 1])
    chatted = active_home.host_code(RETRIED, KEPT, ASKED)
    assert chatted.returncode == 0, describe(chatted)
    first, second = model.requests_saying(ASKED)
    assert "half past seven" in first.memory_context and first.memory_context == second.memory_context
    assert len(database.themes_of_turn(ASKED)) == 1
    answers = database.column(
        "SELECT content FROM conversations WHERE role = 'assistant' AND session_id ="
        " (SELECT session_id FROM conversations WHERE content = %s)",
        ASKED,
    )
    assert answers == [thoughts[1]]
