"""What it costs Postgres to index a long text by words: the function behind the column `tsv`, alone."""

from __future__ import annotations

import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))
import common
import psycopg

SIZES = {"2 KB": 2_000, "60 KB": 60_000, "1 MB": 1_000_000, "2 MB": 2_000_000, "10 MB": 10_000_000}


def texts(chars: int, dice: random.Random) -> dict[str, str]:
    """Texts of one length: prose, a log, Chinese."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(dice.choices(letters, k=dice.randint(2, 10))) for _ in range(20_000)]
    lines = (
        f"2024-05-01T12:00:00 worker-{dice.getrandbits(16)} GET /v1/item/{dice.getrandbits(32):x} done"
        for _ in iter(int, 1)
    )
    log: list[str] = []
    length = 0
    while length < chars:
        log.append(next(lines))
        length += len(log[-1]) + 1
    return {
        "prose": " ".join(dice.choices(words, k=chars // 4))[:chars],
        "log": "\n".join(log)[:chars],
        "chinese": "".join(chr(0x4E00 + int(dice.paretovariate(1)) % 3000) for _ in range(chars)),
    }


def main() -> None:
    """Index each text, print."""
    options = common.parser(__doc__)
    options.add_argument("--times", type=int, default=3, metavar="N", help="each text is indexed")
    args = options.parse_args()
    dice = random.Random(common.SEED)
    table: list[dict[str, Any]] = []
    with common.postgres() as server, psycopg.connect(server.database(384)) as conn:
        for size, chars in SIZES.items():
            row: dict[str, Any] = {"text": size}
            for name, text in texts(chars, dice).items():
                taken = []
                for _ in range(args.times):
                    started = time.perf_counter()
                    found = conn.execute("SELECT length(hermes_search_vector('bench', %s))", (text,)).fetchone()
                    taken.append((time.perf_counter() - started) * 1000)
                assert found is not None
                row |= {f"{name}_ms": round(statistics.median(taken), 1), f"{name}_words": found[0]}
            table.append(row)
    common.report("scale/long_text", {"times": args.times}, table, args.json)


if __name__ == "__main__":
    main()
