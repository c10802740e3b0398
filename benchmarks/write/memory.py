"""Whether the process's memory stays flat while operations pass through it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))
import common

DIMS = 384


def rss_mb() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Pass operations through in equal parts and print memory after each."""
    options = common.parser(__doc__)
    options.add_argument("--operations", type=int, default=1_000_000, metavar="N")
    options.add_argument("--parts", type=int, default=10, metavar="N")
    args = options.parse_args()
    rows: list[dict[str, Any]] = []
    with common.postgres() as server:
        config = {"dsn": server.database(DIMS), "dims": DIMS, "spool_max_mb": 2000}
        with common.provider(config) as made:
            assert made.runtime is not None
            for part in range(args.parts):
                for number in range(args.operations // args.parts):
                    made.sync_turn(*common.turn(part * args.operations + number))
                backlog = made.runtime.writer.depth()
                assert made.runtime.writer.flush(3600)
                rows.append(
                    {
                        "operations": (part + 1) * (args.operations // args.parts),
                        "rss_mb": round(rss_mb(), 1),
                        "backlog_before": backlog,
                    }
                )
                print(rows[-1], flush=True)
    first, last = rows[0]["rss_mb"], rows[-1]["rss_mb"]
    rows.append({"operations": "last to first", "rss_mb": round(last / first, 2)})
    common.report("write/memory", {"operations": args.operations, "dims": DIMS}, rows, args.json)


if __name__ == "__main__":
    main()
