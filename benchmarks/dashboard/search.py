"""How long the dashboard's search takes with 100,000 rows: in one theme of them, and across 500.

Each question goes over a socket to the API as the host's dashboard mounts it, and every one is new: its embedding comes
from an endpoint that answers in 20 ms. `agent-view` is the block that an agent would get for a message in the theme, or
in the largest. The rows hold generated sentences over a Zipf vocabulary and generated vectors of 384 dimensions; a
question is 1 to 8 of the words.

    python -P benchmarks/dashboard/search.py [--rows 100000] [--questions 200] [--json FILE]
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parents[each]) for each in (1, 2)]
sys.path.append(str(Path(__file__).resolve().parents[1] / "scale"))
import common
import population
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.dashboard import BASE, DashboardApi, dashboard_api
from tests.support.mcp_client import mcp_home

DIMS = 384
EMBED_MS = 20
WARM = 10  # questions that open connections and fill plans
SEARCHES = {"search": {}, "search, turns": {"store": "turns"}, "search, one role": {"role": "assistant"}}


def questions(name: str, count: int, seed: int) -> list[dict[str, str]]:
    """Parameters with different questions, of 1 to 8 words, common and rare; those to begin with besides `count`."""
    dice = random.Random(common.SEED + seed)
    sentences = (population.sentence(dice).split() for _ in range(count + WARM))
    return [{name: " ".join(words[: 1 + number % 8])} for number, words in enumerate(sentences)]


def timed(
    api: DashboardApi, path: str, params: dict[str, str], asked: list[dict[str, str]], holds: str
) -> dict[str, Any]:
    """Milliseconds of each call but the first ones, as a client waits for them, and how many answers hold anything.

    `late`: said that they take too long.
    """
    took, counts = [], {"found": 0, "by words only": 0, "late": 0}
    for number, each in enumerate(asked):
        before = time.perf_counter()
        answer = api.http.get(BASE + path, params=params | each)
        if number >= WARM:
            took.append(1000 * (time.perf_counter() - before))
            told = answer.json()
            counts["late"] += answer.status_code == 503
            counts["found"] += bool(told.get(holds))
            counts["by words only"] += told.get("mode") == "lexical"
    return {**common.spread(took), "of": len(took), **counts}


def measured(api: DashboardApi, place: dict[str, str], count: int) -> Iterator[dict[str, Any]]:
    """The times of searches in a place, without filters and with, and of the agent's view of its largest theme."""
    for number, (what, filters) in enumerate(SEARCHES.items()):
        yield {"what": what, **timed(api, "/search", place | filters, questions("q", count, number), "results")}
    theme = {"theme": place.get("theme", "theme-1")}
    yield {"what": "agent-view", **timed(api, "/agent-view", theme, questions("message", count, 9), "block")}


def served(dsn: str, url: str, where: str, place: dict[str, str], count: int) -> list[dict[str, Any]]:
    """The figures of a database."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        home = mcp_home(Path(folder) / "agent", dsn=dsn, dims=DIMS, embed_url=url, rerank="off")
        with dashboard_api(home.path, patched) as api:
            return [{"where": where} | row for row in measured(api, place, count)]


def main() -> None:
    """Measures and prints."""
    made = common.parser(__doc__)
    made.add_argument(
        "--rows", type=int, default=100_000, metavar="N", help="turns of each database; 2 %% more memories"
    )
    made.add_argument("--questions", type=int, default=200, metavar="N", help="of each kind")
    args = made.parse_args()
    rows = []
    with common.postgres() as server, common.endpoint(DIMS, EMBED_MS, "unit", "sentences") as url:
        many = max(2, args.rows // 200)
        for themes, place in ((1, {"theme": "theme-1"}), (many, {"scope": "all"})):
            dsn = server.database(DIMS)
            admin = make_conninfo(server.server.ensure().admin, dbname=conninfo_to_dict(dsn)["dbname"])
            sizes = population.theme_sizes(args.rows, themes) if themes > 1 else {"theme-1": args.rows}
            # The graphs take most of the time, and answer no question about so few rows.
            population.load(admin, population.rows(sizes, DIMS), memory="256MB", graphs=False)
            rows += served(dsn, url, f"themes: {themes}", place, args.questions)
    parameters = {"rows": args.rows, "questions": args.questions, "dims": DIMS, "embed_ms": EMBED_MS}
    common.report("dashboard-search", parameters, rows, args.json)


if __name__ == "__main__":
    main()
