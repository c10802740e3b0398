"""Whether the process's memory stays flat while operations pass through it."""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))
import common

DIMS = 384
# Of a million operations that is two bytes each, and the smallest object that one could leave behind takes 16.
FLAT = 0.02


def rss_mb() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def growth(rows: list[dict[str, Any]]) -> float:
    """Bytes an operation by which memory grew over the parts, the first quarter left out (least squares)."""
    settled = rows[len(rows) // 4 :]
    slope = statistics.linear_regression([row["operations"] for row in settled], [row["rss_mb"] for row in settled])
    return slope.slope * 1e6


def main() -> int:
    """Pass operations through in equal parts and print memory after each; 1 when it is not flat."""
    options = common.parser(__doc__)
    options.add_argument("--operations", type=int, default=1_000_000, metavar="N")
    options.add_argument("--parts", type=int, default=20, metavar="N", help="at least 4")
    options.add_argument("--embed", action="store_true", help="with an endpoint that answers at once")
    args = options.parse_args()
    size = args.operations // args.parts
    rows: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(common.postgres())
        config = {"dsn": server.database(DIMS), "dims": DIMS, "spool_max_mb": 2000}
        if args.embed:
            config["embed_url"] = stack.enter_context(common.endpoint(DIMS, 0))
        made = stack.enter_context(common.provider(config))
        assert made.runtime is not None
        for part in range(args.parts):
            for number in range(part * size, (part + 1) * size):
                made.sync_turn(*common.turn(number))
            backlog = made.runtime.writer.depth()
            assert made.runtime.writer.flush(3600)
            rows.append({"operations": (part + 1) * size, "rss_mb": round(rss_mb(), 2), "backlog_before": backlog})
            print(rows[-1], flush=True)
    per_operation = growth(rows)
    grown_mb = per_operation * (rows[-1]["operations"] - rows[len(rows) // 4]["operations"]) / 1e6
    is_flat = grown_mb < FLAT * rows[len(rows) // 4]["rss_mb"]
    rows.append(
        {
            "operations": "first quarter to last",
            "rss_mb": f"{_mean(rows[: args.parts // 4]):.1f} to {_mean(rows[-(args.parts // 4) :]):.1f}",
            "bytes_per_operation": round(per_operation, 2),
            "verdict": "flat" if is_flat else "grows",
        }
    )
    parameters = {"operations": args.operations, "parts": args.parts, "dims": DIMS, "embed": args.embed}
    common.report("write/memory", parameters, rows, args.json)
    return 0 if is_flat else 1


def _mean(rows: list[dict[str, Any]]) -> float:
    return statistics.fmean(row["rss_mb"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())
