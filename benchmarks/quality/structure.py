"""Memories that say what they are: what is superseded stays behind its successor, and procedures meet their situation.

Facts: precisionmem_en, once as plain text and once with its kinds, scopes and subjects, written newest first. Asked are
its questions, and each superseded text in its own words. A superseded text may not stand before its successor.

Procedures: a theme with one procedure for each situation, and first messages of sessions: some speak of one of these
situations, in the same or in other words, and some of none. Half of both was held out when the bar was chosen.

    python structure.py --data DIR [--no-model | --model-dir DIR --model-name NAME --dims N] [--variants]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common
import psycopg
from corpora import read_corpus
from recall import embedding, options, share_found

from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.facts import PLAIN, Structure
from hermes_memory_pgvector.domain.operations import RememberMemory
from hermes_memory_pgvector.domain.types import Question, Scope
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall import bars
from hermes_memory_pgvector.recall.relevance import fitting

CORPUS = "precisionmem_en"
KINDS = {"entity": "fact", "relation": "fact", "open_question": "question"}  # by what the corpus calls them
BARS = (2.8, 3.3, 3.8, 4.3, 4.8)  # spreads

Cases = dict[str, tuple[str, ...]]
CHOSEN: Cases = {
    "deploying the API": (
        "Please roll out the new version of the API to staging", "Deploy the api now",
        "Let's ship the backend service to production today",
    ),
    "writing a blog post": (
        "Draft an article about our summer release for the website", "I need a blog post on sleep",
        "Write a short post for our company blog",
    ),
    "reviewing a pull request": (
        "Can you look at PR 218?", "Review this diff before I merge it", "Please review the pull request of Tom",
    ),
    "the user asks for a report": (
        "Give me a summary of last quarter's numbers as a report", "I need the weekly report",
        "Prepare the report for Monday",
    ),
    "restoring a database backup": (
        "We lost the orders table, get it back from last night's dump", "Restore the backup of the database",
        "How do I recover Postgres from the snapshot?",
    ),
    "booking a flight": (
        "Find me a plane ticket to Lisbon for Friday", "Book a flight to Oslo",
        "I have to fly to Rome next week, arrange it",
    ),
    "debugging a failing test": (
        "test_login is red since this morning, find out why", "Why does this unit test fail?",
        "The CI is broken, tests fail on main",
    ),
    "translating a text into German": (
        "How would you say this letter in German?", "Translate the following paragraph to German",
        "Bitte übersetze das ins Deutsche",
    ),
    "migrating the schema of a database": (
        "Add a column to the users table in production", "We need a schema migration for orders",
        "Alter the table invoices",
    ),
    "cooking for guests": (
        "What should I make for dinner on Saturday, six people are coming?", "Friends come over tonight, plan a menu",
        "cook something for my guests",
    ),
    "answering a customer's complaint": (
        "Mrs Meier is angry that her parcel is late, write her back", "Reply to this complaint",
        "A client complains about the invoice",
    ),
    "scraping a web site": (
        "Extract all prices from this page every day", "Scrape the listings of example.com",
        "crawl the site and collect the titles",
    ),
    "planning a sprint": (
        "Which tickets do we take into the next two weeks?", "Help me plan the sprint", "sprint planning is tomorrow",
    ),
    "renewing TLS certificates": (
        "The certificate of the web server expires next week", "renew the tls certs", "Let's Encrypt renewal fails",
    ),
    "setting up a new laptop": (
        "I got a new MacBook, install my tools", "Set up my laptop", "configure the new machine for development",
    ),
    "rotating API keys": (
        "The token leaked, we need a new one", "Rotate the key of the payments API", "replace the secrets of the API",
    ),
}  # fmt: skip
HELD: Cases = {
    "preparing a talk": ("I speak at a conference in May, help me with slides", "Prepare my talk about queues"),
    "filing the tax return": ("Which receipts do I need for my income tax?", "Let us file the tax return"),
    "optimising a slow SQL query": ("This select takes 40 seconds", "Make the query on the sales table faster"),
    "onboarding a new colleague": ("Priya starts on Monday, what has to be ready?", "Onboard the new colleague"),
    "planting vegetables": ("When do I sow tomatoes?", "Plan the vegetables that I plant this year"),
    "negotiating a contract": ("The supplier wants 12 % more, how do we respond?", "Negotiate the contract with Acme"),
    "publishing a package": ("Release version 2.1 of our library to the index", "Publish the package"),
    "training for a marathon": ("I run 42 km in October, make me a schedule", "marathon training for beginners"),
    "handling an outage": ("Production is down!", "There is an outage of the shop"),
    "writing a cover letter": ("Help me apply for this job", "A cover letter for the bakery, please"),
    "analysing a CSV file": ("Here is sales.csv, which month was best?", "Analyse this csv"),
    "naming a product": ("We need a brand name for the new soap", "Name our next product"),
}
GENERAL = {
    False: (
        "Hello, how are you today?", "What can you do?", "Tell me a joke", "Good morning, let us get started",
        "I have a question", "Can you help me with something?", "Continue where we left off",
        "What did we talk about yesterday?", "Who are you?", "Thanks, and what is next?",
        "What is the weather like in Bergen?", "Give me a short summary", "Please make it shorter",
        "Let's get to work on the project", "I am back from lunch, anything new?", "Remind me what is on my list",
        "What time is it in Tokyo?", "Explain how photosynthesis works", "How old is the universe?",
        "Recommend a book about the sea", "Fix the typo in the heading", "Open the file and read it to me",
        "Sort these names by date", "My cat is ill and I am worried", "Which colour goes with dark green?",
        "Compute 17 times 23", "Write a function that reverses a list in Python", "Why is my loop slow?",
        "Add a button to the page", "Create a table of the planets",
    ),
    True: (
        "Hey, are you there?", "Let us begin", "What do you know about me?", "Please check this again",
        "I changed my mind", "Who won the world cup in 1998?", "Draw a cat with letters", "How tall is Mont Blanc?",
        "Delete the last line", "What does this error mean?", "Read the news to me", "Set a timer for ten minutes",
        "Spell the word rhythm", "Is it a holiday tomorrow?", "Tell me more about that",
    ),
}  # fmt: skip


# -- facts


def structures(turns: Sequence[Mapping[str, Any]]) -> dict[str, Structure]:
    """What each text of the corpus says of itself; those that replace each other have the subject of the last."""
    by_id = {turn["id"]: turn for turn in turns}

    def last(turn: Mapping[str, Any]) -> Mapping[str, Any]:
        return last(by_id[turn["superseded_by"]]) if turn["superseded_by"] else turn

    return {
        turn["id"]: Structure(
            kind=KINDS.get(last(turn)["kind"], last(turn)["kind"]),
            subject=last(turn)["name"],
            scope=last(turn)["scope"][0],
        ).settled()
        for turn in turns
    }


def facts(provider: PgvectorMemoryProvider, path: Path) -> Iterator[dict[str, Any]]:
    """A row for plain texts, and one for texts with kinds, scopes and subjects."""
    (corpus,), (theme,) = json.loads(path.read_text(encoding="utf-8"))["themes"], read_corpus(path.parent, path.stem)
    said, at = structures(corpus["turns"]), {turn.name: turn.at.timestamp() for turn in theme.turns}
    for way in ("plain", "with kinds and subjects"):
        for turn in sorted(corpus["turns"], key=lambda turn: -at[turn["id"]]):
            structure = PLAIN if way == "plain" else said[turn["id"]]
            _submit(provider, way, turn["text"], structure, at[turn["id"]])
        _settle(provider)
        yield {"memories": way} | _asked(provider, way, corpus)


def _asked(provider: PgvectorMemoryProvider, theme: str, corpus: Mapping[str, Any]) -> dict[str, Any]:
    texts = {turn["text"]: turn["id"] for turn in corpus["turns"]}
    pairs = [(turn["id"], turn["superseded_by"]) for turn in corpus["turns"] if turn["superseded_by"]]
    old = [turn["text"] for turn in corpus["turns"] if turn["superseded_by"]]
    before = shown = unwanted = 0
    at_5, at_10 = [], []
    for number, text in enumerate([*(each["text"] for each in corpus["questions"]), *old]):
        found = [texts[content] for content in recalled(provider, theme, text)]
        place = {name: rank for rank, name in enumerate(found)}
        shown += sum(one in place for one, _ in pairs)
        before += sum(place.get(one, 99) < place.get(other, 99) for one, other in pairs)
        if number < len(corpus["questions"]):
            asked = corpus["questions"][number]
            best = min(place.get(name, 99) for name in asked["gold"])
            unwanted += sum(place.get(name, 99) < best for name in asked["must_not"])
            names = [{name} for name in found]
            at_5.append(share_found(frozenset(asked["gold"]), names, 5))
            at_10.append(share_found(frozenset(asked["gold"]), names, 10))
    return {
        "questions": f"{len(at_5)} + {len(old)}",
        "superseded before its successor": before,
        "superseded shown": shown,
        "unwanted before the answer": unwanted,
        "@5": f"{statistics.fmean(at_5):.3f}",
        "@10": f"{statistics.fmean(at_10):.3f}",
    }


def recalled(provider: PgvectorMemoryProvider, theme: str, text: str) -> list[str]:
    """The ten best memories of a theme."""
    assert provider.runtime is not None
    asked = Question(text, Scope("theme", theme), 10, 30.0)
    return [hit.content for hit in provider.runtime.searcher.recall(["memories"], asked).hits]


# -- procedures


def procedures(provider: PgvectorMemoryProvider, dsn: str, bar: float, *, held: bool) -> dict[str, Any]:
    """A row of one half, with a bar of so many spreads."""
    cases = HELD if held else CHOSEN
    with mock.patch.object(bars, "SITUATIONS_ABOVE", bar):
        with_it = [(when, _begun(provider, text)) for when, texts in cases.items() for text in texts]
        general = [_begun(provider, text) for text in GENERAL[held]]
        without = []
        for when, texts in cases.items():
            with _archived(dsn, when):
                without += [_begun(provider, text) for text in texts]
    return {
        "half": "held out" if held else "chosen on",
        "right": f"{sum(when == found for when, found in with_it)} of {len(with_it)}",
        "another": sum(found not in (when, "") for when, found in with_it),
        "its own taken out: another": f"{sum(map(bool, without))} of {len(without)}",
        "general message: any": f"{sum(map(bool, general))} of {len(general)}",
    }


def _begun(provider: PgvectorMemoryProvider, message: str) -> str:
    """The situation of the procedure that a session with this message begins with; "" for none."""
    assert provider.runtime is not None
    searcher, until = provider.runtime.searcher, time.monotonic() + 60.0
    asked = Question(message, Scope("theme", "bench"), 1, 30.0, begins_task=True)
    found = fitting(searcher, searcher.recall(["memories"], asked).procedures, message, Settings(), until)
    return found[0].when if found else ""


@contextlib.contextmanager
def _archived(dsn: str, when: str) -> Iterator[None]:
    change = "UPDATE memory_entries SET state = %s WHERE applies_when = %s"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(change.encode(), ("archived", when))
        yield
        connection.execute(change.encode(), ("active", when))


def learn(provider: PgvectorMemoryProvider, cases: Cases) -> None:
    """Store a procedure for each situation, whose text says nothing of it."""
    for number, when in enumerate(cases):
        structure = Structure(kind="procedure", when=when).settled()
        _submit(provider, "bench", f"Follow sheet {number} of the binder.", structure, 1_700_000_000.0 + number)
    _settle(provider)


def _submit(provider: PgvectorMemoryProvider, theme: str, text: str, structure: Structure, at: float) -> None:
    assert provider.runtime is not None
    provider.runtime.writer.submit(
        RememberMemory(theme=theme, at=at, target="memory", content=text, structure=structure)
    )


def _settle(provider: PgvectorMemoryProvider) -> None:
    assert provider.runtime is not None
    assert provider.runtime.writer.flush(600)


@contextlib.contextmanager
def store(args: argparse.Namespace) -> Iterator[tuple[PgvectorMemoryProvider, str]]:
    """A provider over an empty database, and how to reach that."""
    with contextlib.ExitStack() as stack:
        config: dict[str, Any] = {"dims": args.dims, "recall_deadline_s": 30, "prefetch_deadline_s": 8}
        dsn = config["dsn"] = stack.enter_context(common.postgres()).database(args.dims)
        config |= stack.enter_context(embedding(args))
        yield stack.enter_context(common.provider(config)), dsn


def main() -> None:
    """Load, ask, print."""
    parser = options(__doc__)
    parser.add_argument("--variants", action="store_true", help="other bars for procedures as well")
    args = parser.parse_args()
    parameters = {"model": None if args.no_model else args.model_name}
    with store(args) as (provider, _):
        rows = list(facts(provider, args.data / f"{CORPUS}.json"))
    common.report("quality/structure", parameters, rows, args.json)
    if rows[-1]["superseded before its successor"]:
        raise SystemExit("what is superseded stands before its successor")
    rows = []
    for held in (False, True):
        with store(args) as (provider, dsn):
            learn(provider, HELD if held else CHOSEN)
            for bar in BARS if args.variants else (bars.SITUATIONS_ABOVE,):
                rows.append({"bar": bar} | procedures(provider, dsn, bar, held=held))
    common.report("quality/procedures", parameters, rows, None)


if __name__ == "__main__":
    main()
