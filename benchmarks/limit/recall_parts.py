"""Where does the time go between the question's vector and the answer?

As `recall.py`, whose themes and options these are: what passes in each part of a call after the endpoint has answered,
in milliseconds, medians; the parts of a call add up to what lies beyond the embedding, but for what each median leaves.

    recall_parts.py [--keep DIR] [--size N]...
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))
import recall
from recall import common

from hermes_memory_pgvector.recall.search import Search
from hermes_memory_pgvector.recall.searcher import Searcher

PARTS: tuple[tuple[type, str, str], ...] = (
    (Search, "by_vectors", "read the vector leg"),
    (Search, "_ranked", "common order"),
    (Search, "_fetch", "fetch the best 20, and what is around them"),
)


class Parts:
    """Takes the time of parts of the calls that are made while it is there."""

    def __init__(self) -> None:
        self._passed: dict[str, float] = {}
        self._came = 0.0
        self._wrap(Searcher, "_in_time", self._begin)
        for owner, name, part in PARTS:
            self._wrap(owner, name, lambda since, part=part: self._add(part, since))

    def of(self, call: Callable[[], object]) -> dict[str, float]:
        """The milliseconds of each part of a call, from when the vector was there; none where it was not waited for."""
        self._came = 0.0
        self._passed = {}
        call()
        if "first" not in self._passed:
            return {}
        whole = (time.perf_counter() - self._came) * 1000
        parts = {"begin, vector leg": self._passed.pop("first")} | self._passed
        return parts | {"the rest": whole - sum(parts.values()), "whole": whole}

    def _begin(self, since: float) -> None:
        self._came = time.perf_counter()
        self._passed = {}  # what the words alone took while the endpoint thought

    def _add(self, part: str, since: float) -> None:
        if "first" not in self._passed and self._came:
            self._passed["first"] = (since - self._came) * 1000
        self._passed[part] = self._passed.get(part, 0.0) + (time.perf_counter() - since) * 1000

    def _wrap(self, owner: type, name: str, then: Callable[[float], None]) -> None:
        inner = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            since = time.perf_counter()
            try:
                return inner(*args, **kwargs)
            finally:
                then(since)

        setattr(owner, name, timed)


def main() -> None:
    """Load where needed, ask, print."""
    args = recall.options(__doc__).parse_args()
    table: list[dict[str, Any]] = []
    parts = Parts()
    for bench, size, _ in recall.benches(args):
        for asked, call in bench.calls().items():
            taken: dict[str, list[float]] = defaultdict(list)
            for number in range(recall.WARM_UP + args.rounds):
                for part, ms in parts.of(call).items():
                    if number >= recall.WARM_UP:
                        taken[part].append(ms)
            middles = {part: round(statistics.median(each), 2) for part, each in taken.items()}
            table.append({"asked": asked, "theme rows": size} | middles)
    common.report("limit/recall_parts", {"dims": args.dims, "latency_ms": args.latency_ms}, table, args.json)


if __name__ == "__main__":
    main()
