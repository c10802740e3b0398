"""Evidence recall on LoCoMo through the provider: does recall_conversation return the turns that answer a question?

Ten long conversations, one theme each; every turn is written with its date and speaker, every question asked with the
tool, scoped to its own conversation. evidence recall@k = found gold turns / gold turns, mean over questions.
The data (locomo10.json, CC BY-NC 4.0, for evaluation only) is not part of this repository: name it with --data.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import re
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]
import common

from hermes_memory_pgvector.domain.models import Operation
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.support.embedding_server import EmbeddingServer, OnnxModel
from tests.support.model_files import MODEL_DIMS, MODEL_NAME, model_dir

SHA256 = "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_DATE = "%I:%M %p on %d %B, %Y"
_EVIDENCE = re.compile(r"D(\d+):0*(\d+)")


def turns_of(conversation: dict[str, Any]) -> Iterator[tuple[str, str, str, datetime]]:
    """(dia_id, session, text, date) of every turn, in order."""
    for number in range(1, 100):
        session = conversation.get(f"session_{number}")
        if not session:
            continue
        date = datetime.strptime(conversation[f"session_{number}_date_time"], _DATE).replace(tzinfo=UTC)
        for turn in session:
            text = f"{turn['speaker']}: {turn['text']}"
            if turn.get("blip_caption"):
                text += f" [image: {turn['blip_caption']}]"
            yield turn["dia_id"], f"session-{number}", text, date


def questions_of(sample: dict[str, Any], known: set[str]) -> Iterator[tuple[str, int, set[str]]]:
    """(question, category, gold dia_ids) of every question with at least one existing gold turn."""
    for qa in sample["qa"]:
        gold = {f"D{s}:{t}" for part in qa["evidence"] for s, t in _EVIDENCE.findall(part)} & known
        if gold:
            yield qa["question"], qa["category"], gold


def load(provider: PgvectorMemoryProvider, theme: str, sample: dict[str, Any]) -> None:
    """Write a conversation as the hooks would have, with its own dates."""
    runtime = provider.runtime
    assert runtime is not None
    for dia, session, text, date in turns_of(sample["conversation"]):
        payload = {
            "session_id": f"{theme}-{session}",
            "messages": [{"role": "user", "content": text}],
            "metadata": {"dia_id": dia},
        }
        runtime.writer.submit(Operation("turn", theme, payload, date.timestamp()))


def evaluate(provider: PgvectorMemoryProvider, theme: str, sample: dict[str, Any]) -> list[dict[str, Any]]:
    """One row a question: category and evidence recall at 5 and at 10."""
    by_text: dict[str, set[str]] = {}
    for dia, _, text, _ in turns_of(sample["conversation"]):
        by_text.setdefault(text, set()).add(dia)
    known = {dia for dias in by_text.values() for dia in dias}
    rows = []
    for question, category, gold in questions_of(sample, known):
        started = time.perf_counter()
        answer = json.loads(
            provider.handle_tool_call("recall_conversation", {"query": question, "limit": 10, "scope": theme})
        )
        took_ms = (time.perf_counter() - started) * 1000
        found = [by_text.get(hit["content"], set()) for hit in answer["results"]]
        row: dict[str, Any] = {"theme": theme, "category": category, "mode": answer["mode"], "ms": took_ms}
        for k in (5, 10):
            row[f"at_{k}"] = len(gold & set().union(*found[:k])) / len(gold)
        rows.append(row)
    return rows


def interval(values: list[float], generator: random.Random) -> tuple[float, float]:
    """A 95 % bootstrap confidence interval of the mean."""
    means = sorted(statistics.fmean(generator.choices(values, k=len(values))) for _ in range(500))
    return means[12], means[487]


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Evidence recall over all questions, and by category and half of the conversations."""
    generator = random.Random(common.SEED)
    groups = {"all": rows}
    groups |= {name: [row for row in rows if row["category"] == number] for number, name in CATEGORIES.items()}
    themes = sorted({row["theme"] for row in rows})
    groups |= {
        "first half": [row for row in rows if row["theme"] in themes[: len(themes) // 2]],
        "second half": [row for row in rows if row["theme"] in themes[len(themes) // 2 :]],
    }
    table = []
    for name, group in groups.items():
        if not group:
            continue
        line: dict[str, Any] = {"questions of": name, "n": len(group)}
        for k in (5, 10):
            values = [row[f"at_{k}"] for row in group]
            low, high = interval(values, generator)
            line[f"recall@{k}"] = round(statistics.fmean(values), 3)
            line[f"95% @{k}"] = f"{low:.3f}-{high:.3f}"
        line["p50_ms"] = round(statistics.median(row["ms"] for row in group), 1)
        table.append(line)
    return table


def main() -> None:
    """Load, ask, print."""
    options = common.parser(__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--data", type=Path, required=True, metavar="FILE", help="locomo10.json")
    options.add_argument("--no-model", action="store_true", help="recall by words only")
    options.add_argument("--dsn", metavar="DSN", help="a migrated database (dims 384) to use again, loaded when empty")
    args = options.parse_args()
    body = args.data.read_bytes()
    if hashlib.sha256(body).hexdigest() != SHA256:
        options.error(f"{args.data} is not the file this benchmark is made for (sha256 {SHA256})")
    samples = json.loads(body)
    with contextlib.ExitStack() as stack:
        config: dict[str, Any] = {"dims": MODEL_DIMS, "spool_max_mb": 2000, "recall_deadline_s": 30}
        config["dsn"] = args.dsn or stack.enter_context(common.postgres()).database(MODEL_DIMS)
        if not args.no_model:
            config["embed_url"] = stack.enter_context(EmbeddingServer(OnnxModel(model_dir()))).url
            config["embed_model"] = MODEL_NAME
        provider = stack.enter_context(common.provider(config))
        assert provider.runtime is not None
        provider.runtime.backend.bring_up()
        if not provider.runtime.backend.counts()["turns"]:
            for sample in samples:
                load(provider, sample["sample_id"], sample)
            assert provider.runtime.writer.flush(3600)
        rows = [row for sample in samples for row in evaluate(provider, sample["sample_id"], sample)]
    parameters = {"model": None if args.no_model else MODEL_NAME, "questions": len(rows)}
    common.report("quality/locomo", parameters, summary(rows), args.json)


if __name__ == "__main__":
    main()
