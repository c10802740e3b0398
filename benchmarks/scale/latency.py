"""How long does a whole recall take beside the bare SQL, in themes of any size?

A table of 250,000 turns of 768 dimensions in 200 themes, a quarter of them memories as well, without the HNSW graph,
which recall inside a theme does not use. Each question is asked in turn by the tool, with its embedding known; by the
two-step statement alone (signatures, then exact) on a plain psycopg connection; and by all statements of the tool, sent
bare on that connection in one transaction. Ratios are taken question by question, and their median and quartiles shown.

    latency.py [--keep DIR]         loads for a minute; with --keep the next run only asks
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parents[number]) for number in (0, 1, 2)]
import common
import population
import psycopg
from exactness import BARE, Answers, common_words, database, recorded, replay
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo
from truth import Asked

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.support.embedding_server import EmbeddingServer

TOOLS = {"recall_memory": "memory_entries", "recall_conversation": "conversations"}
MEMORY_SHARE = 4
WARM_UP = 12  # calls of a tool, after which its statements are prepared and planned


def asked_of(sizes: dict[str, int], vectors: dict[str, Any], themes: int, words: Iterator[str]) -> list[Asked]:
    """Questions about `themes` themes of every bucket, spread over its sizes."""
    buckets: dict[str, list[str]] = defaultdict(list)
    for theme, size in sorted(sizes.items(), key=lambda each: each[1]):
        if size >= population.BUCKETS[0]:
            buckets[population.bucket_of(size)].append(theme)
    chosen = [
        theme
        for group in buckets.values()
        for theme in group[:: max(1, len(group) // themes)][:themes]
    ]  # fmt: skip
    return [
        Asked(theme, sizes[theme], f"{next(words)} {number}", vector)
        for theme in chosen
        for number, vector in enumerate(vectors[theme])
    ]


def milliseconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


def measured(
    provider: PgvectorMemoryProvider, plain: psycopg.Connection[Any], tool: str, group: Sequence[Asked], rounds: int
) -> dict[str, list[tuple[float, float, float]]]:
    """(tool, bare statement, all statements bare) in milliseconds, for each question, `rounds` times."""
    bare = BARE.replace("conversations", TOOLS[tool])
    taken: dict[str, list[tuple[float, float, float]]] = {}
    for one in group:

        def call(one: Asked = one) -> str:
            return provider.handle_tool_call(tool, {"query": one.text, "scope": f"theme:{one.theme}"})

        if '"hybrid"' not in call():
            raise SystemExit(f"no answer by both legs: {call()[:300]}")
        sent = recorded(call)
        alone = [(bare, one.row())]
        call(), replay(plain, alone), replay(plain, sent)
        taken[one.text] = [
            (milliseconds(call), replay(plain, alone), replay(plain, sent)) for _ in range(rounds)
        ]  # fmt: skip
    return taken


def row_of(tool: str, bucket: str, taken: dict[str, list[tuple[float, float, float]]]) -> dict[str, Any]:
    """A line of the table: medians over the questions, of the median of each."""
    middles = [tuple(map(statistics.median, zip(*rounds, strict=True))) for rounds in taken.values()]
    line: dict[str, Any] = {"tool": tool, "theme rows": bucket, "questions": len(middles)}
    for column, place in (("tool_ms", 0), ("bare_ms", 1), ("all_bare_ms", 2)):
        line[column] = round(statistics.median(middle[place] for middle in middles), 2)
    line["least_tool_ms"] = round(min(one[0] for rounds in taken.values() for one in rounds), 2)
    for column, place in (("x bare", 1), ("x all bare", 2)):
        ratios = sorted(middle[0] / middle[place] for middle in middles)
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        line[column] = f"{middle:.2f} ({low:.2f}-{high:.2f})"
    return line


def main() -> None:
    """Load where needed, ask, print."""
    options = common.parser(__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--rows", type=int, default=250_000, metavar="N")
    options.add_argument("--themes", type=int, default=200, metavar="N")
    options.add_argument("--dims", type=int, default=768, metavar="N")
    options.add_argument("--ask-themes", type=int, default=5, metavar="N", help="of each size are asked about")
    options.add_argument("--each", type=int, default=3, metavar="N", help="questions a theme")
    options.add_argument("--rounds", type=int, default=5, metavar="N", help="costs are measured over")
    options.add_argument("--tool", choices=TOOLS, action="append")
    options.add_argument(
        "--keep", type=Path, metavar="DIR", help="a server's directory to use again, loaded when empty"
    )
    args = options.parse_args()
    sizes = population.theme_sizes(args.rows, args.themes)
    with contextlib.ExitStack() as stack:
        admin, empty = stack.enter_context(database(args, f"latency_{args.rows}_{args.dims}", args.dims))
        if empty:
            population.load(
                admin, population.rows(sizes, args.dims), memory="2GB", memory_share=MEMORY_SHARE, graphs=False
            )
        vectors: dict[str, Any] = defaultdict(list)
        for theme, some in population.questions(sizes, args.dims, args.each):
            vectors[theme] = some
        words = common_words()
        plain = stack.enter_context(psycopg.connect(make_conninfo(admin, user="hermes"), autocommit=True))
        register_vector(plain)
        asked = {}
        for tool in args.tool or TOOLS:
            counted = plain.execute(f"SELECT agent_identity, count(*) FROM {TOOLS[tool]} GROUP BY 1".encode())
            asked[tool] = asked_of(dict(counted.fetchall()), vectors, args.ask_themes, words)
        url = stack.enter_context(EmbeddingServer(Answers([one for group in asked.values() for one in group]))).url
        config = {"dsn": make_conninfo(admin, user="hermes"), "dims": args.dims, "embed_url": url}
        provider = stack.enter_context(common.provider(config | {"pool_max_size": 1, "recall_deadline_s": 60}))
        assert provider.runtime is not None
        provider.runtime.backend.bring_up()
        table = []
        for tool, questions in asked.items():
            measured(provider, plain, tool, questions[:WARM_UP], 1)
            buckets: dict[str, list[Asked]] = defaultdict(list)
            for one in questions:
                buckets[one.bucket].append(one)
            for bucket, group in buckets.items():
                table.append(row_of(tool, bucket, measured(provider, plain, tool, group, args.rounds)))
        common.report("scale/latency", {"rows": args.rows, "dims": args.dims}, table, args.json)


if __name__ == "__main__":
    main()
