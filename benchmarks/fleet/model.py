"""The scripted model of the tests in a process of its own, which keeps nothing of what it is asked.

Prints its base URL and serves until its input ends. It repeats the ticket that the user names; where the user says
`Look up`, it calls recall_conversation first, if it may.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))
from tests.support.model_server import ChatRequest, ModelServer, Reply, ToolCall

LOOK_UP = "Look up"
_TICKET = re.compile(r"ticket \d+ of [\w-]+")


def answer_to(ticket: str) -> str:
    """What the assistant says of a ticket."""
    return f"As for {ticket}: it waits for a review of its second draft; Robin looks after it and is done by noon."


def script(request: ChatRequest) -> Reply:
    """A sentence about the ticket, after a tool call where one is asked for."""
    named = _TICKET.search(request.user_words)
    ticket = named[0] if named else "that"
    if LOOK_UP in request.user_words and "recall_conversation" in request.tool_names and not request.tool_results:
        return Reply(tool_calls=(ToolCall("recall_conversation", {"query": f"status of {ticket}"}),))
    return Reply(answer_to(ticket))


class Forgetful(ModelServer):
    """Ten thousand requests with their histories would be gigabytes."""

    def answer(self, body: Mapping[str, Any]) -> Reply:
        """What the script says."""
        return self.script(ChatRequest(body))


if __name__ == "__main__":
    with Forgetful(script) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()
