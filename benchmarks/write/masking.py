"""What masking of secrets costs a hook, for texts of three sizes; beside one search for a word that is not there."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))
import common

from hermes_memory_pgvector.domain.redaction import Masker

SIZES = (100, 2_000, 100_000)
PROSE = (
    "the quick crane moves a pallet of harbour stone over to berth nine while Dana checks the budget for Atlas and "
    "Yusuf asks whether invoice 4711 was paid: it was, on 3 May; see https://example.com/a_b?c=d for the e-mail"
)
SECRETS = ("password=hunter2", "gh" + "p_" + "a1B2c3D4e5" * 4, "postgres://u:hunter2@db/atlas", "api_key: a1b2c3d4e5f6")


def text_of(size: int, secrets: bool, source: random.Random) -> str:
    """Prose of `size` characters; with `secrets` one for every 1,000 characters, and at least one."""
    words: list[str] = []
    prose = PROSE.split()
    length = 0
    while length < size:
        words.append(source.choice(prose))
        length += len(words[-1]) + 1
    if secrets:
        for place in range(0, len(words), 170):
            words[place] = source.choice(SECRETS)
    return " ".join(words)[:size]


def timed(calls: int, call: Callable[[], object]) -> dict[str, float]:
    """The duration of each of `calls` calls, in microseconds."""
    durations = []
    for _ in range(calls):
        started = time.perf_counter_ns()
        call()
        durations.append((time.perf_counter_ns() - started) / 1000)
    return common.spread(durations)


def main() -> None:
    """Measure and print."""
    options = common.parser(__doc__)
    options.add_argument("--calls", type=int, default=500, metavar="N")
    args = options.parse_args()
    source = random.Random(7)
    masker, own = Masker(), Masker((r"CUST-\d{4}",))
    rows: list[dict[str, Any]] = []
    for size in SIZES:
        plain, telling = text_of(size, False, source), text_of(size, True, source)
        floor = timed(args.calls, lambda text=plain: "no-such-word" in text)  # type: ignore[misc]
        cases = (("no secret", masker, plain), ("secrets", masker, telling), ("no secret, own pattern", own, plain))
        for name, with_, text in cases:
            figures = timed(args.calls, lambda made=with_, said=text: made.mask(said))  # type: ignore[misc]
            rows.append(
                {"chars": size, "text": name, "masked": with_.mask(text)[1]}
                | {f"{key}_us": value for key, value in figures.items()}
                | {"p50_to_floor": round(figures["p50"] / max(floor["p50"], 0.01), 1)}
            )
    common.report("write/masking", {"calls": args.calls, "seed": 7}, rows, args.json)


if __name__ == "__main__":
    main()
