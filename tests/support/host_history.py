"""A session database as hermes-agent's own code writes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hermes_state import SessionDB

BEGAN = 1_760_000_000.0  # 2025-10-09 08:53:20 UTC
CHAT_KEY = "agent:main:telegram:dm:99"

PORT = "Which port does the staging Postgres listen on, do you know?"
PORT_IS = "The staging Postgres listens on port 5433, behind the bastion host."
PICTURE = "What is on this picture of the wiring closet in Berlin?"
PICTURE_IS = "The picture shows the patch panel of the third floor, with two free ports."
COLOUR = "Which colour did we choose for the Atlas project, please remind me?"
COLOUR_IS = "Blue it is, as ever since last May; the logo follows in June."
INVOICES = "Please remember that the invoice run is on the 3rd of the month."
INVOICES_ARE = "Noted: the invoice run takes place on the third of each month."
SIGNED = "Who signs the invoices off before they go out, again?"
SIGNED_BY = "Bert signs them off, and they go to accounting."
SUMMARY = (
    "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted\n## Goal\nports\n\n"
    "--- END OF CONTEXT SUMMARY — respond to the message below, not the summary above ---"
)
CALL = [{"id": "1", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}]


@contextmanager
def session_db(home: Path) -> Iterator[SessionDB]:
    """The database of a home, open as the host has it."""
    home.mkdir(parents=True, exist_ok=True)
    db = SessionDB(db_path=home / "state.db")
    try:
        yield db
    finally:
        db.close()


def say(db: SessionDB, session: str, *turns: tuple[str, Any] | tuple[str, Any, dict[str, Any]], at: float) -> None:
    """Append messages to a session, ten seconds apart."""
    for number, (role, content, *more) in enumerate(turns):
        db.append_message(session, role, content, timestamp=at + 10 * number, **(more[0] if more else {}))


def write_history(home: Path) -> None:
    """Sessions of every kind, with what is worth storing and what is not."""
    with session_db(home) as db:
        db.create_session("cli-1", "cli")
        say(
            db,
            "cli-1",
            ("system", "You are Hermes."),
            ("user", PORT),
            ("assistant", "Let me look.", {"tool_calls": CALL}),
            ("tool", "5433", {"tool_call_id": "1"}),
            ("assistant", PORT_IS),
            ("user", "ok"),
            ("assistant", "You are welcome!"),
            ("user", "[ASYNC DELEGATION finished] the sub-agent has found the list"),
            ("assistant", "The price list is at /srv/prices.csv, the sub-agent says."),
            ("user", [{"type": "text", "text": PICTURE}, {"type": "image_url", "image_url": {"url": "data:,"}}]),
            ("assistant", PICTURE_IS),
            ("user", "This was never answered, for the power went out in the building."),
            at=BEGAN,
        )
        db.archive_and_compact(
            "cli-1", [{"role": "user", "content": SUMMARY}, {"role": "assistant", "content": PICTURE_IS}]
        )
        say(db, "cli-1", ("user", COLOUR), ("assistant", COLOUR_IS), at=BEGAN + 1000)

        db.create_session("chat-1", "telegram", user_id="4915112345678")
        db.record_gateway_session_peer(
            "chat-1", source="telegram", user_id="4915112345678", session_key=CHAT_KEY, chat_id="99", chat_type="dm"
        )
        say(db, "chat-1", ("user", INVOICES), ("assistant", INVOICES_ARE), at=BEGAN + 2000)
        db.end_session("chat-1", "compression")
        db.create_session("chat-2", "telegram", parent_session_id="chat-1")
        kept = [{"role": "user", "content": INVOICES}, {"role": "assistant", "content": INVOICES_ARE}]
        db.replace_messages("chat-2", kept)
        say(db, "chat-2", ("user", SIGNED), ("assistant", SIGNED_BY), at=BEGAN + 3000)

        for number, (source, words) in enumerate(
            {"cron": {}, "api_server": {}, "cli": {"_delegate_from": "cli-1"}}.items()
        ):
            name = f"{source}-of-nobody"
            db.create_session(name, source, model_config=words or None)
            said = f"What did the health check of node {number} say this morning?"
            say(db, name, ("user", said), ("assistant", f"Node {number} has a failing disk."), at=BEGAN + 4000)
