"""What does the user wait for beyond the embedding, and how near is that to the bare SQL statement?

Themes of 10 to 54,000 turns, and as many memories, in one table; an endpoint in a process of its own that thinks for
20 ms, so that no question's vector is known before it is asked. In turn, for each theme and round:

- the embedding alone: the same client, another question;
- the bare two-step statement (signatures, then exact), by plain psycopg, for each store, right after an embedding, when
  the processor has waited as long as it does for whoever embeds a question first;
- the vector leg as it is shipped, also after one, in a transaction that is open already: its time, and the CPU of the
  backend;
- `recall_memory`, `recall_conversation` and `prefetch`, each with a question of its own.

What lies beyond the embedding is the difference within a round. Medians, with quartiles; last, all themes together,
each asked as often as another.

    recall.py [--keep DIR]      loads for half a minute; with --keep the next run only asks
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parents[number]) for number in (1, 2)]
sys.path.append(str(Path(__file__).resolve().parents[1] / "scale"))
import common
import population
import psycopg
from exactness import BARE, Cpu, common_words, database
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo
from truth import Asked

from hermes_memory_pgvector.domain.types import Filters, Scope, Store
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.support.candidates import vector_candidates

STORES: dict[Store, str] = {"memories": "memory_entries", "turns": "conversations"}
TOOLS: dict[Store, str] = {"memories": "recall_memory", "turns": "recall_conversation"}
SIZES = (10, 100, 500, 2_000, 10_000, 54_000)
WARM_UP = 12  # rounds, after which the statements of both sides are prepared and planned


class Bench:
    """One theme, asked in every way. Each way returns what it measured, in milliseconds, by its name."""

    def __init__(self, provider: PgvectorMemoryProvider, plain: psycopg.Connection[Any], theme: str, size: int) -> None:
        assert provider.runtime is not None and provider.runtime.embedder is not None
        self._provider = provider
        self._runtime = provider.runtime
        self._embedder = provider.runtime.embedder
        self._plain = plain
        self._theme = theme
        self._size = size
        self._asked = (f"{text} {number}" for number, text in enumerate(_short(common_words())))

    def round(self, vector: list[float]) -> dict[str, float]:
        """Everything once."""
        taken = {"embed": self.embed()}
        for store in STORES:
            taken |= self._statement(store, vector) | self._leg(store, vector)
        return taken | {asked: milliseconds(call) for asked, call in self.calls().items()}

    def calls(self) -> dict[str, Callable[[], object]]:
        """What an agent calls, each with a question of its own whenever it is called."""
        return {
            "recall_memory": lambda: self._tool("recall_memory"),
            "recall_conversation": lambda: self._tool("recall_conversation"),
            "prefetch": lambda: self._provider.prefetch(next(self._asked), session_id="s"),
        }

    def embed(self) -> float:
        return milliseconds(lambda: self._embedder.embed_query(next(self._asked), timeout_s=10))

    def _statement(self, store: Store, vector: list[float]) -> dict[str, float]:
        cpu = Cpu(self._plain.info.backend_pid)
        row = Asked(self._theme, self._size, "", vector).row()
        statement = BARE.replace("conversations", STORES[store])
        self.embed()
        before = cpu()
        taken = milliseconds(lambda: self._plain.execute(statement, row, prepare=True).fetchall())
        return {f"bare {store}": taken, f"bare cpu {store}": cpu() - before}

    def _leg(self, store: Store, vector: list[float]) -> dict[str, float]:
        with self._runtime.backend.connection(60) as conn:
            conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")  # as a question has it
            cpu = Cpu(conn.info.backend_pid)
            self.embed()
            before = cpu()
            scope = Scope("theme", self._theme)
            taken = milliseconds(lambda: vector_candidates(conn, store, scope, Filters(), vector, limit=40))
            return {f"leg {store}": taken, f"leg cpu {store}": cpu() - before}

    def _tool(self, tool: str) -> None:
        said = self._provider.handle_tool_call(tool, {"query": next(self._asked), "scope": f"theme:{self._theme}"})
        if '"hybrid"' not in said:
            raise SystemExit(f"no answer by both legs: {said[:300]}")


def _short(texts: Iterator[str]) -> Iterator[str]:
    return (" ".join(text.split()[:5]) for text in texts)


def milliseconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


def middle(values: list[float]) -> str:
    """Median and quartiles."""
    low, median, high = statistics.quantiles(values, n=4)
    return f"{median:.2f} ({low:.2f}-{high:.2f})"


def rows_of(size: int, rounds: list[dict[str, float]]) -> list[dict[str, Any]]:
    """The lines of one size of theme."""

    def ms(name: str) -> float:
        return statistics.median(one[name] for one in rounds)

    lines: list[dict[str, Any]] = []
    for store, tool in TOOLS.items():
        beyond = [one[tool] - one["embed"] for one in rounds]
        lines.append(
            {
                "asked": tool,
                "theme rows": size,
                "embed_ms": round(ms("embed"), 2),
                "bare_ms": round(ms(f"bare {store}"), 2),
                "leg / bare": round(ms(f"leg {store}") / ms(f"bare {store}"), 2),
                "leg / bare, CPU": round(
                    statistics.fmean(one[f"leg cpu {store}"] for one in rounds)
                    / statistics.fmean(one[f"bare cpu {store}"] for one in rounds),
                    2,
                ),
                "beyond_ms": middle(beyond),
                "beyond / bare": middle([each / ms(f"bare {store}") for each in beyond]),
            }
        )
    floor = [one["embed"] + sum(one[f"bare {store}"] for store in STORES) for one in rounds]
    lines.append(
        {
            "asked": "prefetch",
            "theme rows": size,
            "embed_ms": round(ms("embed"), 2),
            "bare_ms": round(sum(ms(f"bare {store}") for store in STORES), 2),
            "beyond_ms": middle([one["prefetch"] - one["embed"] for one in rounds]),
            "whole_ms": middle([one["prefetch"] for one in rounds]),
            "whole / floor": middle([one["prefetch"] / least for one, least in zip(rounds, floor, strict=True)]),
        }
    )
    return lines


def of_all(rounds: list[dict[str, float]]) -> list[dict[str, Any]]:
    """A line for each tool: the time of every theme's calls over that of their bare statements."""
    lines = []
    for store, tool in TOOLS.items():
        bare, cpu = (sum(one[f"{what} {store}"] for one in rounds) for what in ("bare", "bare cpu"))
        lines.append(
            {
                "asked": tool,
                "theme rows": "all",
                "embed_ms": round(statistics.fmean(one["embed"] for one in rounds), 2),
                "bare_ms": round(bare / len(rounds), 2),
                "leg / bare": round(sum(one[f"leg {store}"] for one in rounds) / bare, 2),
                "leg / bare, CPU": round(sum(one[f"leg cpu {store}"] for one in rounds) / cpu, 2),
                "beyond_ms": round(statistics.fmean(one[tool] - one["embed"] for one in rounds), 2),
                "beyond / bare": round(sum(one[tool] - one["embed"] for one in rounds) / bare, 2),
            }
        )
    return lines


def options(doc: str | None) -> argparse.ArgumentParser:
    """Which themes, and how often."""
    made = common.parser(doc)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("--size", type=int, action="append", metavar="N", help=f"rows of a theme; default {SIZES}")
    made.add_argument("--dims", type=int, default=768, metavar="N")
    made.add_argument("--rounds", type=int, default=100, metavar="N")
    made.add_argument("--latency-ms", type=float, default=20, metavar="N", help="of the endpoint")
    made.add_argument("--keep", type=Path, metavar="DIR", help="a server's directory to use again, loaded when empty")
    return made


def benches(args: argparse.Namespace, led: Callable[[str], str] = str) -> Iterator[tuple[Bench, int, Any]]:
    """For each theme: the means to ask it, its rows, and vectors to ask with. Its provider goes where `led` says."""
    sizes = {f"theme-{number}": size for number, size in enumerate(args.size or SIZES, 1)}
    name = "limit_" + "_".join(map(str, [args.dims, *sizes.values()]))
    with contextlib.ExitStack() as stack:
        admin, empty = stack.enter_context(database(args, name, args.dims))
        if empty:
            population.load(admin, population.rows(sizes, args.dims), memory="1GB", memory_share=1, graphs=False)
        plain = stack.enter_context(psycopg.connect(make_conninfo(admin, user="hermes"), autocommit=True))
        register_vector(plain)
        url = stack.enter_context(common.endpoint(args.dims, args.latency_ms, "unit"))
        vectors = dict(population.questions(sizes, args.dims, 20))
        config = {"dsn": led(make_conninfo(admin, user="hermes")), "dims": args.dims, "embed_url": url}
        for theme, size in sizes.items():
            with common.provider(config, theme) as provider:
                assert provider.runtime is not None
                provider.runtime.backend.bring_up()
                yield Bench(provider, plain, theme, size), size, vectors[theme]


def main() -> None:
    """Load where needed, ask, print."""
    args = options(__doc__).parse_args()
    table: list[dict[str, Any]] = []
    every: list[dict[str, float]] = []
    for bench, size, vectors in benches(args):
        asking = itertools.cycle([vector.tolist() for vector in vectors])
        rounds = [bench.round(next(asking)) for _ in range(WARM_UP + args.rounds)][WARM_UP:]
        table += rows_of(size, rounds)
        every += rounds
    table.sort(key=lambda line: (line["asked"], line["theme rows"]))
    table += of_all(every)
    common.report("limit/recall", {"dims": args.dims, "latency_ms": args.latency_ms}, table, args.json)


if __name__ == "__main__":
    main()
