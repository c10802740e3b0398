"""What does a network between agent and Postgres cost a question?

As `recall.py`, whose options these are, with every byte delayed on its way to Postgres and back, so that a round trip
takes `--network-ms` longer; and the same without that delay, in turn. Counted are the round trips of each call: all of
them, and those that end after the endpoint has answered. *Beyond* is a call minus an embedding in that round; medians.

    recall_far.py [--keep DIR] [--network-ms N]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[2]))
sys.path.append(str(Path(__file__).resolve().parent))
import recall
from recall import common

from hermes_memory_pgvector.recall.searcher import Searcher
from tests.support.slow_proxy import SlowProxy


class Call(NamedTuple):
    """Milliseconds, round trips, and those of them after the vector, where that was waited for."""

    ms: float
    trips: int
    after: int | None


class Trips:
    """Counts the round trips of a call, and of these the ones since the vector was there."""

    def __init__(self, proxy: SlowProxy) -> None:
        self._proxy = proxy
        self._came: int | None = None
        inner = Searcher._in_time

        def noted(*args: Any, **kwargs: Any) -> Any:
            found = inner(*args, **kwargs)
            self._came = proxy.trips
            return found

        Searcher._in_time = noted  # type: ignore[method-assign]

    def of(self, call: Callable[[], object]) -> Call:
        """What the call takes."""
        self._came, before = None, self._proxy.trips
        started = time.perf_counter()
        call()
        took = (time.perf_counter() - started) * 1000
        after = None if self._came is None else self._proxy.trips - self._came
        return Call(took, self._proxy.trips - before, after)


def _row(asked: str, size: int, network_ms: float, calls: list[Call]) -> dict[str, Any]:
    after = [call.after for call in calls if call.after is not None]
    return {
        "asked": asked,
        "theme rows": size,
        "network_ms": network_ms,
        "round trips": statistics.median(call.trips for call in calls),
        "of them after the vector": statistics.median(after) if after else "",
        "beyond_ms": round(statistics.median(call.ms for call in calls), 2),
    }


def main() -> None:
    """Load where needed, ask, print."""
    made = recall.options(__doc__)
    made.add_argument("--network-ms", type=float, default=5, metavar="N", help="that a round trip takes longer")
    args = made.parse_args()
    table: list[dict[str, Any]] = []
    with ExitStack() as stack:
        proxies: list[SlowProxy] = []

        def led(dsn: str) -> str:
            proxies.append(stack.enter_context(SlowProxy.before(dsn)))
            return proxies[0].conninfo(dsn)

        for bench, size, _ in recall.benches(args, led):
            trips = Trips(proxies[0])
            taken: dict[tuple[str, float], list[Call]] = defaultdict(list)
            for number in range(recall.WARM_UP + args.rounds):
                for network_ms in (0.0, args.network_ms):
                    proxies[0].delay_s = network_ms / 2000
                    embed = bench.embed()
                    for asked, call in bench.calls().items():
                        made_of = trips.of(call)
                        if number >= recall.WARM_UP:
                            taken[asked, network_ms].append(made_of._replace(ms=made_of.ms - embed))
            table += [_row(asked, size, network_ms, calls) for (asked, network_ms), calls in taken.items()]
    table.sort(key=lambda line: (line["asked"], line["theme rows"], line["network_ms"]))
    parameters = {"dims": args.dims, "latency_ms": args.latency_ms, "network_ms": args.network_ms}
    common.report("limit/recall_far", parameters, table, args.json)


if __name__ == "__main__":
    main()
