"""A demo memory: a month of several agents' talk, made by the commands and hooks that anybody has.

Run as `python tests/support/demo_memory.py HOME`, with the home's own environment.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.host.session_context import load_settings

DAYS = 30
_WAIT_S = 60.0

# What is asked and answered, a theme at a time; each is talked about more than once.
TALK: Mapping[str, Sequence[tuple[str, str]]] = {
    "sre": (
        (
            "How did we mend the outage of the payments gateway last night?",
            "We raised its connection pool to 80 and restarted the workers; ERR_CONN_42 has not come back since.",
        ),
        (
            "Which node of the staging cluster runs out of disk so often?",
            "Node 7 does: its log volume has 20 GB only. Rotation is now daily, and an alert stands at 80 percent.",
        ),
        (
            "When may I deploy the billing service, and who has to know?",
            "Tuesdays and Thursdays before 15:00; tell the channel #billing-changes, and watch the queue afterwards.",
        ),
        (
            "How do I restore the orders database to a point in time?",
            "Stop the consumers, restore the base backup to a new host, replay to the minute before, switch the alias.",
        ),
        (
            "Why did the certificate of the status page expire without a warning?",
            "Its renewal ran as a user that was removed in spring; it runs as certbot now, and doctor checks the date.",
        ),
    ),
    "marketing": (
        (
            "Which headline did the board choose for the Atlas campaign?",
            "The board chose the headline 'Maps that think ahead' for the Atlas campaign, for print and for the web.",
        ),
        (
            "What is left of the budget for the spring campaign?",
            "Of 40,000 euros 11,600 are left: print took 18,000, the two trade fairs took 10,400.",
        ),
        (
            "Who writes the newsletter in July, and when is it due?",
            "The Lisbon office writes it. Texts are due on 3 July, pictures two days later.",
        ),
        (
            "Do we say 'route planner' or 'journey planner' in English texts?",
            "Journey planner, in all texts since May; the old word stays in the search keywords.",
        ),
    ),
    "support": (
        (
            "A customer says that the export of routes stops at 5,000 rows. Is that known?",
            "Yes: exports from the browser end at 5,000 rows. The API has no such limit; send the link to its guide.",
        ),
        (
            "How long do we keep attachments of closed tickets?",
            "For 180 days; those of tickets about invoices for ten years, in the archive.",
        ),
        (
            "What do I answer when somebody asks for an invoice in another currency?",
            "Invoices are in euros or kroner. Anything else needs a signature of the sales lead.",
        ),
    ),
    "research": (
        (
            "Which of the three tile formats rendered fastest on old phones?",
            "Vector tiles of 512 pixels with simplified coastlines: 41 ms a tile against 96 and 130.",
        ),
        (
            "Where are the recordings of the interviews with harbour pilots?",
            "In the archive under pilots-2026; transcripts are done for nine of the twelve.",
        ),
    ),
}

# What is said day by day, with other names and numbers each time.
DAILY: Mapping[str, tuple[str, str, Sequence[str]]] = {
    "sre": (
        "How did the deployment of {name} go, and how is its queue now?",
        "Release {number} of {name} is out since 14:{minute}, and its queue is empty again; no alert came.",
        ("billing", "the tile server", "the route planner", "the status page", "the login", "search"),
    ),
    "marketing": (
        "Please count the registrations for {name} once more.",
        "There are {number} registrations for {name}, {minute} of them since Monday.",
        ("the fair in Bilbao", "the webinar on tides", "the open day", "the newsletter", "the photo walk"),
    ),
    "support": (
        "Ticket ATL-{number}: {name} does not get the daily report. What do I answer?",
        "The report of {name} went to an old address in ATL-{number}; it is corrected, and sent again at 9:{minute}.",
        ("Norwind", "Harbour Works", "Two Rivers", "Kestrel Lines", "Blue Ferry"),
    ),
    "research": (
        "Summarise the interview with pilot {number} in one sentence.",
        "Pilot {number} reads {name} first, and wants it {minute} percent larger at night.",
        ("the depth", "the wind", "the berth plan", "the radio channel"),
    ),
}

MEMORIES: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]] = {
    "sre": (
        (
            "The payments gateway answers ERR_CONN_42 when its pool of connections is exhausted.",
            {"kind": "fact", "subject": "payments-gateway"},
        ),
        ("The primary of the orders database is db-14 in Hamburg.", {"kind": "value", "subject": "orders.primary"}),
        (
            "No deployment of billing after 15:00.",
            {"kind": "constraint", "subject": "billing.deploy", "scope": "billing", "pinned": True},
        ),
        (
            "Deploy billing, then watch its queue for ten minutes, and roll back when it grows.",
            {"kind": "procedure", "when": "deploying the billing service", "scope": "billing"},
        ),
        ("The staging cluster is rebuilt every Sunday at 04:00 UTC.", {}),
        (
            "Log rotation was set to weekly, and node 7 ran full twice.",
            {"kind": "reflection", "when": "setting up log rotation"},
        ),
    ),
    "marketing": (
        ("The spring campaign for the Atlas product starts on 3 May.", {"kind": "decision", "subject": "atlas.spring"}),
        ("In English texts the product is a journey planner.", {"kind": "preference", "subject": "wording"}),
        ("The colour of the Atlas logo is RAL 5015.", {"kind": "value", "subject": "atlas.logo"}),
        ("Which agency prints the posters for the autumn fair?", {"kind": "question", "subject": "autumn-fair"}),
    ),
    "support": (
        ("The customer Norwind pays net 60 and wants every quote in kroner.", {"kind": "fact", "subject": "norwind"}),
        ("Answers to customers close with the name of the team, not of a person.", {"kind": "preference"}),
    ),
    "research": (
        ("Interviews are quoted by number, never by the pilot's name.", {"kind": "constraint", "pinned": True}),
    ),
}

FILE_ENTRIES = (
    "The team works in the zone Europe/Lisbon.",
    "Prefer short answers with the command first.",
    "Dates are written as 2026-03-14.",
    "Tickets are named ATL-1234.",
    "The wiki is the only source for telephone numbers.",
    "Meeting notes go to the folder minutes.",
)

CHAT = {
    "platform": "telegram", "gateway_session_key": "agent:main:telegram:dm:5550100", "chat_type": "dm",
    "chat_id": "5550100", "user_id": "5550100", "session_id": "chat-1",
}  # fmt: skip
CHAT_SAID = (
    "The code for the bicycle shed of our house is 7341, and the shed is behind the bakery.",
    "Noted: the shed behind the bakery, with the code 7341.",
)


def fill(home: Path) -> None:
    """Fill the database of a hermes home."""
    _import(home)
    # A decision that changed, a text that was mended, and something that was forgotten: all three have a history.
    _run(home, "add", "The primary of the orders database is db-21 in Lisbon.", "--theme", "sre",
         "--kind", "value", "--subject", "orders.primary")  # fmt: skip
    number = _number(home, "The colour of the Atlas logo is RAL 5015.")
    _run(home, "edit", number, "The colour of the Atlas logo is RAL 5017, traffic blue.", "--yes")
    _run(home, "backfill")
    _lose_a_file(home)
    _talk(home, CHAT, *CHAT_SAID)


def _import(home: Path) -> None:
    with tempfile.NamedTemporaryFile("wb", suffix=".jsonl") as file:
        digest, counts = hashlib.sha256(), {"memories": 0, "turns": 0, "removed": 0}
        for record in _records():
            line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
            digest.update(line)
            file.write(line)
            if "store" in record:
                counts[record["store"]] += 1
        file.write(json.dumps({"end": True, **counts, "sha256": digest.hexdigest()}).encode() + b"\n")
        file.flush()
        _run(home, "import", file.name)


def _records() -> Iterator[dict[str, Any]]:
    chance = random.Random(11)
    now = datetime.now(UTC).replace(microsecond=0)
    yield {
        "format": "hermes-memory-pgvector", "version": 1, "made_at": now.isoformat(), "made_by": "demo", "model": "",
        "dims": 0, "document_prefix": "", "query_prefix": "", "vectors": False, "themes": None, "since": None,
        "until": None,
    }  # fmt: skip
    for theme in TALK:
        for day in range(DAYS, 0, -1):
            at = now - timedelta(days=day, minutes=chance.randrange(400))
            for role, text in _said(theme, day, chance):
                at += timedelta(seconds=40)
                yield {
                    "store": "turns", "theme": theme, "session_id": f"{theme}-{at:%m%d}", "role": role,
                    "content": text, "ts": at.isoformat(),
                    "metadata": {"platform": ("cli", "api_server")[day % 2], "profile": "default", "host": "atlas-1"},
                }  # fmt: skip
    for theme, memories in MEMORIES.items():
        for number, (text, said) in enumerate(memories):
            at = (now - timedelta(days=DAYS - 4 * number, hours=5)).isoformat()
            yield {
                "store": "memories", "theme": theme, "target": "memory", "content": text, "created_at": at,
                "updated_at": at, "metadata": {"source": "tool", "host": "atlas-1"}, "structure": dict(said),
            }  # fmt: skip


def _said(theme: str, day: int, chance: random.Random) -> Iterator[tuple[str, str]]:
    """Give what both sides say on a day: some of the daily talk, and what is asked once in a while."""
    question, answer, names = DAILY[theme]
    exchanges = [TALK[theme][day // 5]] if day % 5 == 0 and day // 5 < len(TALK[theme]) else []
    for name in chance.sample(names, chance.randrange(len(names) - 1)):
        words = {"name": name, "number": chance.randrange(120, 990), "minute": chance.randrange(10, 60)}
        exchanges.append((question.format(**words), answer.format(**words)))
    for said, answered in exchanges:
        yield "user", said
        yield "assistant", answered


def _number(home: Path, text: str) -> str:
    with psycopg.connect(load_settings(None, home).settings.dsn) as conn:
        row = conn.execute("SELECT id FROM memory_entries WHERE content = %s", (text,)).fetchone()
    assert row is not None, text
    return f"m{row[0]}"


def _lose_a_file(home: Path) -> None:
    path = home / "memories" / "MEMORY.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n§\n".join(FILE_ENTRIES), encoding="utf-8")
    desk = {"platform": "cli", "agent_identity": "default", "session_id": "desk-1"}
    _talk(
        home, desk, "Please read the notes of the team before we begin with the tickets of today.", "I have read them."
    )
    path.write_text("", encoding="utf-8")
    _talk(
        home, desk | {"session_id": "desk-2"}, "What do the notes of the team say about dates in tickets?", "Nothing."
    )


def _talk(home: Path, session: Mapping[str, str], said: str, answer: str) -> None:
    # A new process each time is what a file is compared in: a provider of its own stands in for it.
    provider = PgvectorMemoryProvider(None)
    arguments = dict(session)
    provider.initialize(arguments.pop("session_id"), hermes_home=str(home), **arguments)
    provider.sync_turn(said, answer)
    if provider.runtime is None or not provider.runtime.writer.flush(_WAIT_S):
        raise SystemExit(f"the demo did not reach the database: {load_settings(None, home).settings.dsn}")
    provider.shutdown()


def _run(home: Path, *arguments: str) -> None:
    if main([*arguments, "--hermes-home", str(home)]):
        raise SystemExit(f"failed: {' '.join(arguments)}")


if __name__ == "__main__":
    fill(Path(sys.argv[1]))
