"""Recall of facts that stand alone: what helps in conversations must not hurt where neighbours have nothing in common.

Made-up facts about people and services, each asked for in other words, once as memories and once as turns of sessions
in which every turn speaks of something else. The shipped code searches, then the same with one constant changed.
hit@k = questions whose one fact is among the first k.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common
from recall import embedding, interval, options

from hermes_memory_pgvector.domain.operations import Message, RememberMemory, StoreTurn
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall import fuse


def words(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


THEME = "facts"
SESSION = 20  # turns
PEOPLE = words("Ada Boris Carmen Dmitri Elena Farid Greta Hiro Ines Jamal Katya Liam Mona Nils Olga")
SERVICES = words("atlas beacon cobalt dynamo ember falcon garnet harbor indigo jasper krypton lumen meteor nimbus onyx")
VALUES = {
    "food": words("peanuts shellfish celery lupin sesame soy eggs wheat milk almonds cashews kiwi mango squid oats"),
    "thing": words("cello oboe harp tuba banjo flute sitar viola lute bagpipes drums trumpet piano organ mandolin"),
    "city": words("Oslo Turin Porto Ghent Lyon Graz Bergen Malmo Bilbao Gdansk Brno Cork Tartu Bari Split"),
    "port": [str(number) for number in range(7001, 7016)],
    "sum": [f"{number},000 euros" for number in range(21, 36)],
    "tea": words(
        "ayran tonic espresso cocoa cider matcha chai lemonade cappuccino kefir kombucha sencha mate oolong rooibos"
    ),
}
KINDS = [
    (PEOPLE, "food", "{who} is allergic to {what}.", "Which dish would make {who} ill?"),
    (PEOPLE, "thing", "{who} has played the {what} since school.", "What instrument does {who} practise?"),
    (PEOPLE, "tea", "For breakfast {who} always has {what}.", "What does {who} like to drink in the morning?"),
    (PEOPLE, "city", "{who} moved to {what} with the family.", "Where does {who} live now?"),
    (SERVICES, "port", "The {who} service listens on {what}.", "On which port can {who} be reached?"),
    (
        SERVICES,
        "city",
        "Backups of {who} are copied to {what} every night.",
        "Where do we keep the spare data of {who}?",
    ),
    (SERVICES, "sum", "{who} may cost {what} this year.", "How large is the budget of {who}?"),
    (
        SERVICES,
        "food",
        "The code name of {who}'s next release is {what}.",
        "What do we call the coming version of {who}?",
    ),
]
PARTS: dict[str, dict[str, Any]] = {
    "as shipped": {"LENT_SHARES": fuse.LENT_SHARES},
    "without lending": {"LENT_SHARES": ()},
    "1 neighbour, share .35": {"LENT_SHARES": (0.35,)},
    "equal legs": {"VECTOR_WEIGHT": 0.5},
}


def facts() -> list[tuple[str, str]]:
    """(fact, question), in a fixed random order."""
    generator = random.Random(common.SEED)
    made = []
    for names, kind, fact, question in KINDS:
        values = generator.sample(VALUES[kind], len(names))
        made += [
            (fact.format(who=who, what=what), question.format(who=who)) for who, what in zip(names, values, strict=True)
        ]
    generator.shuffle(made)
    return made


def hits(provider: PgvectorMemoryProvider, tool: str) -> Iterator[int]:
    """For each question the place of its fact among ten results, from 0; 10 when it is not there."""
    for fact, question in facts():
        answer = json.loads(provider.handle_tool_call(tool, {"query": question, "limit": 10, "scope": THEME}))
        found = [hit["content"] for hit in answer["results"]]
        yield found.index(fact) if fact in found else 10


def measure(provider: PgvectorMemoryProvider) -> list[dict[str, Any]]:
    """A row for each store and part."""
    table = []
    for tool in ("recall_memory", "recall_conversation"):
        for name, constants in PARTS.items():
            with mock.patch.multiple(fuse, **constants):
                places = list(hits(provider, tool))
            line: dict[str, Any] = {"tool": tool, "variant": name, "n": len(places)}
            for k in (1, 5):
                values = [float(place < k) for place in places]
                low, high = interval(values, random.Random(common.SEED))
                line |= {f"hit@{k}": f"{statistics.fmean(values):.3f}", f"95% @{k}": f"{low:.3f}-{high:.3f}"}
            table.append(line)
    return table


def load(provider: PgvectorMemoryProvider) -> None:
    """Store every fact as a memory and as a turn."""
    assert provider.runtime is not None
    for number, (fact, _) in enumerate(facts()):
        at, session, said = 1_700_000_000 + number, f"s{number // SESSION}", (Message("user", fact),)
        provider.runtime.writer.submit(RememberMemory(theme=THEME, at=at, target="memory", content=fact))
        provider.runtime.writer.submit(StoreTurn(theme=THEME, at=at, session_id=session, messages=said))
    assert provider.runtime.writer.flush(600)


def main() -> None:
    """Load, ask, print."""
    args: argparse.Namespace = options(__doc__, data=False).parse_args()
    with contextlib.ExitStack() as stack:
        config: dict[str, Any] = {"dims": args.dims, "recall_deadline_s": 30}
        config["dsn"] = args.dsn or stack.enter_context(common.postgres()).database(args.dims)
        config |= stack.enter_context(embedding(args))
        provider = stack.enter_context(common.provider(config))
        load(provider)
        rows = measure(provider)
    common.report("quality/facts", {"model": None if args.no_model else args.model_name}, rows, args.json)


if __name__ == "__main__":
    main()
