"""Lets hermes-memory-pgvector 1.0.0 write, run by the interpreter of an environment that has it: HOME DSN URL.

DSN names an empty database, as an admin; URL an embedding endpoint with 768 dimensions.
"""

import sys
import time
from pathlib import Path

import hermes_pgvector
from hermes_pgvector.store import MemoryStore

home, dsn, url = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
(home / "memories").mkdir(parents=True)
(home / "memories" / "MEMORY.md").write_text("The build server is called hal.\n§\nReleases happen on Thursdays.")
(home / "memories" / "USER.md").write_text("Prefers short answers.")
MemoryStore(dsn).apply_all_migrations(admin_dsn=dsn)
(Provider,) = (each for each in vars(hermes_pgvector).values() if isinstance(each, type) and hasattr(each, "sync_turn"))

MARKETING = (
    "Which database does the marketing site use, and on which host?",
    "The marketing site uses Postgres 16 on db-3, behind the proxy of the platform team.",
)
CHAT = "agent:main:telegram:dm:4915112345678"


def session(name, turns, memories=(), delegations=(), **words):
    provider = Provider({"dsn": dsn, "embed_url": url, "embed_model": "any"})
    provider.initialize(name, hermes_home=str(home), agent_workspace="hermes", agent_identity="default", **words)
    for user, assistant in turns:
        provider.sync_turn(user, assistant, session_id=name)
    for target, content in memories:
        provider.on_memory_write("add", target, content, {})
    for task, result in delegations:
        provider.on_delegation(task, result, child_session_id="child-1")
    time.sleep(1)  # its writer has no other way to be waited for
    provider.shutdown()


session(
    "s-1",
    [MARKETING, ("ok", "Always at your service, just ask me whatever you would like to know.")],
    memories=[("memory", "The newsletter goes out on the first Monday."), ("user", "Ana decides on budgets.")],
    platform="api_server",
    gateway_session_key="Marketing",
)
session("s-1", [MARKETING], platform="api_server", gateway_session_key="Marketing")
session(
    "s-2",
    [
        (
            "Please summarise what we know about the invoice run of this month.",
            "The invoice run takes place on the third; Bert signs it off, and it goes to accounting.",
        )
    ],
    delegations=[("Find the price list", "The price list is at /srv/prices.csv")],
    platform="telegram",
    user_id="4915112345678",
    chat_id="4915112345678",
    chat_type="dm",
    gateway_session_key=CHAT,
    parent_session_id="s-1",
)
session(
    "s-3",
    [
        (
            "What did the health check of the cluster say about node seven?",
            "Node seven has a failing disk and is drained; its replacement arrives on Friday.",
        )
    ],
    platform="cli",
)
