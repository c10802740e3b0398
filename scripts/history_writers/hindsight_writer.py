"""Lets hermes-agent's provider hindsight retain turns, run where that and hindsight-client are: HOME URL."""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

home, url = Path(sys.argv[1]), sys.argv[2]
os.environ["HERMES_HOME"] = os.environ["HOME"] = str(home)
os.environ["HERMES_DISABLE_LAZY_INSTALLS"] = "1"  # the host would put the client into this environment
(home / "hindsight").mkdir(parents=True)
settings = {"mode": "local_external", "api_url": url, "bank_id": "hermes", "timeout": 60}
(home / "hindsight" / "config.json").write_text(json.dumps(settings))

from plugins.memory.hindsight import HindsightMemoryProvider  # noqa: E402

DEADLINE_S = 60.0


def settled() -> bool:
    """Whether the server has worked off what it was given."""
    try:
        with urllib.request.urlopen(f"{url}/v1/default/banks/hermes/stats") as answer:
            stats = json.load(answer)
    except urllib.error.HTTPError:  # there is no bank before the first retain
        return False
    return stats["total_documents"] > 0 and not stats["pending_operations"]


def session(name: str, turns: list[tuple[str, str]], note: str = "", **words: str) -> None:
    """A session of these turns, after which the agent may note something."""
    provider = HindsightMemoryProvider()
    provider.initialize(name, hermes_home=str(home), agent_identity="default", agent_workspace="hermes", **words)
    for user, assistant in turns:
        provider.sync_turn(user, assistant, session_id=name)
    if note:
        provider.handle_tool_call("hindsight_retain", {"content": note, "context": "preference"})
    provider._retain_queue.join()
    provider.shutdown()
    deadline = time.monotonic() + DEADLINE_S
    while not settled() and time.monotonic() < deadline:
        time.sleep(0.2)


CHAT = {
    "platform": "telegram", "user_id": "4915112345678", "user_name": "Ana", "chat_id": "99", "chat_type": "dm",
    "gateway_session_key": "agent:main:telegram:dm:99",
}  # fmt: skip
session(
    "20261101_120000_aaaa01",
    [
        (
            "Which port does the staging Postgres listen on?",
            "The staging Postgres listens on port 5433, behind the bastion host.",
        ),
        ("ok", "You are welcome."),
        ("And who may log in there?", "Only the deploy role may log in there; people use the role reports."),
    ],
    note="Ana prefers reports on Monday mornings.",
    platform="cli",
)
session(
    "20261102_120000_bbbb02",
    [
        (
            "Please remember that the invoice run is on the 3rd.",
            "The invoice run takes place on the third of each month.",
        )
    ],
    parent_session_id="20261101_120000_aaaa01",
    **CHAT,
)
