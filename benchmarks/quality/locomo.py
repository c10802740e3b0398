"""Evidence recall on LoCoMo through the provider: does recall_conversation return the turns that answer a question?

Ten long conversations, one theme each; every turn is written with its date and speaker, every question asked with the
tool, scoped to its own conversation. evidence recall@k = found gold turns / gold turns, mean over questions.
The data (locomo10.json, CC BY-NC 4.0, for evaluation only) is not part of this repository: name it with --data.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common
from corpus import CATEGORIES, Conversation, halves, read_conversations
from vectors import CachedModel

from hermes_memory_pgvector.domain.operations import Message, StoreTurn
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.support.embedding_server import EmbeddingServer
from tests.support.model_files import MODEL_DIMS, MODEL_NAME, model_dir

_ROUNDS = 1000  # of the bootstrap


def load(provider: PgvectorMemoryProvider, conversation: Conversation) -> None:
    """Write a conversation as the hooks would have, with its own dates."""
    assert provider.runtime is not None
    for turn in conversation.turns:
        op = StoreTurn(
            theme=conversation.theme,
            at=turn.at.timestamp(),
            session_id=f"{conversation.theme}-{turn.session}",
            messages=(Message("user", turn.text),),
            metadata={"dia_id": turn.name},
        )
        provider.runtime.writer.submit(op)


def evaluate(provider: PgvectorMemoryProvider, conversation: Conversation) -> list[dict[str, Any]]:
    """One row a question: category and evidence recall at 5 and at 10."""
    by_text: dict[str, set[str]] = {}
    for turn in conversation.turns:
        by_text.setdefault(turn.text, set()).add(turn.name)
    rows = []
    for asked in conversation.questions:
        started = time.perf_counter()
        answer = json.loads(
            provider.handle_tool_call(
                "recall_conversation", {"query": asked.text, "limit": 10, "scope": conversation.theme}
            )
        )
        took_ms = (time.perf_counter() - started) * 1000
        found = [by_text.get(hit["content"], set()) for hit in answer["results"]]
        row: dict[str, Any] = {"theme": conversation.theme, "category": asked.category, "mode": answer["mode"]}
        row |= {f"at_{k}": len(asked.gold & set().union(*found[:k])) / len(asked.gold) for k in (5, 10)}
        rows.append(row | {"ms": took_ms})
    return rows


def interval(values: list[float], generator: random.Random) -> tuple[float, float]:
    """A 95 % bootstrap confidence interval of the mean."""
    means = sorted(statistics.fmean(generator.choices(values, k=len(values))) for _ in range(_ROUNDS))
    return means[_ROUNDS * 25 // 1000], means[_ROUNDS * 975 // 1000 - 1]


def summary(rows: list[dict[str, Any]], chosen_on: set[str], held_out: set[str]) -> list[dict[str, Any]]:
    """Evidence recall over all questions, both halves of the conversations, and each category of the held-out half."""
    generator = random.Random(common.SEED)
    reported = [row for row in rows if row["theme"] in held_out]
    groups = {"all": rows, "chosen on": [row for row in rows if row["theme"] in chosen_on], "held out": reported}
    groups |= {
        f"held out, {name}": [row for row in reported if row["category"] == number]
        for number, name in CATEGORIES.items()
    }
    table = []
    for name, group in groups.items():
        line: dict[str, Any] = {"questions": name, "n": len(group)}
        for k in (5, 10):
            values = [row[f"at_{k}"] for row in group]
            low, high = interval(values, generator)
            line[f"recall@{k}"] = f"{statistics.fmean(values):.3f}"
            line[f"95% @{k}"] = f"{low:.3f}-{high:.3f}"
        line["p50_ms"] = round(statistics.median(row["ms"] for row in group), 1)
        table.append(line)
    return table


@contextlib.contextmanager
def loaded(args: argparse.Namespace, conversations: list[Conversation]) -> Iterator[PgvectorMemoryProvider]:
    """A provider over a store with every conversation, embedded unless `--no-model`."""
    with contextlib.ExitStack() as stack:
        config: dict[str, Any] = {"dims": args.dims, "spool_max_mb": 2000, "recall_deadline_s": 30}
        config["recall_max_tokens"] = 100_000  # texts are compared whole
        config["dsn"] = args.dsn or stack.enter_context(common.postgres()).database(args.dims)
        if not args.no_model:
            model = CachedModel(args.model_dir or model_dir(), args.cache)
            config["embed_url"] = stack.enter_context(EmbeddingServer(model)).url
            config["embed_model"] = args.model_name
        provider = stack.enter_context(common.provider(config))
        assert provider.runtime is not None
        provider.runtime.backend.bring_up()
        if not provider.runtime.backend.counts()["turns"]:
            for conversation in conversations:
                load(provider, conversation)
            assert provider.runtime.writer.flush(3600)
        yield provider


def options(doc: str | None, *, data: bool = True) -> argparse.ArgumentParser:
    """The options of every program here that searches; `data`: also those about LoCoMo."""
    made = common.parser(doc)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    if data:
        made.add_argument("--data", type=Path, required=True, metavar="FILE", help="locomo10.json")
    made.add_argument("--no-model", action="store_true", help="recall by words only")
    made.add_argument("--model-dir", type=Path, metavar="DIR", help="another model than the tests' (see vectors.py)")
    made.add_argument("--model-name", default=MODEL_NAME, metavar="NAME", help="its name, by which instructions go")
    made.add_argument("--dims", type=int, default=MODEL_DIMS, metavar="N", help="floats in its vectors")
    made.add_argument("--cache", type=Path, metavar="FILE", help="where vectors are kept (see vectors.py)")
    made.add_argument("--dsn", metavar="DSN", help="a migrated database to use again, loaded when it is empty")
    return made


def main() -> None:
    """Load, ask, print."""
    args = options(__doc__).parse_args()
    conversations = read_conversations(args.data)
    with loaded(args, conversations) as provider:
        rows = [row for conversation in conversations for row in evaluate(provider, conversation)]
    modes = sorted({row["mode"] for row in rows})
    parameters = {"model": None if args.no_model else args.model_name, "questions": len(rows), "modes": modes}
    common.report("quality/locomo", parameters, summary(rows, *halves(conversations)), args.json)


if __name__ == "__main__":
    main()
