"""How long the dashboard's page takes in a browser with 100,000 rows: to its first useful content, and for a search.

A real `hermes dashboard` and a headless Chromium on the same machine, with the host's own files loaded before. `paint`
is from the start of the navigation until a view shows what it asked for; `own` leaves out the time that the host's
application takes until it loads our script. `search` is from Enter in the search box until the marked results
stand there; every question is new. The rows are those of search.py, in 500 themes of a Zipf distribution, and so is the
endpoint.

    python -P benchmarks/dashboard/paint.py [--rows 100000] [--times 30] [--json FILE]
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parents[each]) for each in (1, 2)]
sys.path.append(str(Path(__file__).resolve().parents[1] / "scale"))
import common
import population
from playwright.sync_api import Page
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.demo_dashboard import served_home
from tests.support.page import Opened, chromium, opened, window

DIMS = 384
EMBED_MS = 20
WARM = 3
# Of a view: what stands there once it is of use.
VIEWS: dict[str, tuple[dict[str, str], str]] = {
    "overview": ({}, ".hpg-stat"),
    "themes": ({}, ".hpg-page a[href*='view=theme&']"),
    "theme": ({"theme": "theme-1"}, ".hpg-page a[href*='view=row&']"),
}
# Notes when our script began, and when `what` was there.
WATCH = """(what) => {
  const seen = () => { window.hpgSeen ??= performance.now(); };
  const looked = () => document.querySelector(what) && requestAnimationFrame(seen);
  new MutationObserver(looked).observe(document, {childList: true, subtree: true});
}"""

BEGAN = """() => performance.getEntriesByType("resource")
  .find((each) => each.name.includes("/pgvector/dist/index.js")).startTime"""


def painted(tab: Opened, view: str, times: int) -> list[dict[str, Any]]:
    """The times until a view is of use."""
    params, what = VIEWS[view]
    tab.page.add_init_script(f"({WATCH})({what!r})")
    whole, own = [], []
    for number in range(times + WARM):
        tab.view(view, **params)
        seen = tab.page.wait_for_function("() => window.hpgSeen").json_value()
        began = tab.page.evaluate(BEGAN)
        if number >= WARM:
            whole.append(seen)
            own.append(seen - began)
    return [{"what": f"paint, {view}", **common.spread(whole)}, {"what": f"own, {view}", **common.spread(own)}]


def searched(page: Page, asked: list[str]) -> dict[str, Any]:
    """The times from Enter until the results stand there."""
    took = []
    box = page.locator("[data-hpg-search]")
    for number, question in enumerate(asked):
        box.fill(question)
        before = time.perf_counter()
        box.press("Enter")
        page.wait_for_function(
            "(q) => new URLSearchParams(location.search).get('q') === q && document.querySelector('.hpg-results mark')"
            " && !document.querySelector('.hpg-stale')",
            arg=question,
        )
        if number >= WARM:
            took.append(1000 * (time.perf_counter() - before))
    return {"what": "search", **common.spread(took)}


def main() -> None:
    """Measures and prints."""
    made = common.parser(__doc__)
    made.add_argument("--rows", type=int, default=100_000, metavar="N", help="turns; 2 %% more memories")
    made.add_argument("--times", type=int, default=30, metavar="N", help="of each view, and questions")
    args = made.parse_args()
    dice = random.Random(common.SEED)
    asked = [" ".join(population.sentence(dice).split()[: 2 + number % 6]) for number in range(args.times + WARM)]
    rows: list[dict[str, Any]] = []
    with common.postgres() as server, common.endpoint(DIMS, EMBED_MS, "unit", "sentences") as url:
        dsn = server.database(DIMS)
        admin = make_conninfo(server.server.ensure().admin, dbname=conninfo_to_dict(dsn)["dbname"])
        sizes = population.theme_sizes(args.rows, max(2, args.rows // 200))
        population.load(admin, population.rows(sizes, DIMS), memory="256MB", graphs=False)
        with (
            tempfile.TemporaryDirectory() as folder,
            served_home(Path(folder) / "user", dsn, dims=DIMS, embed_url=url, rerank="off") as dashboard,
            chromium() as browser,
            window(browser) as context,
            opened(context, dashboard) as open_view,
        ):
            for view in VIEWS:
                rows += painted(open_view(view, **VIEWS[view][0]), view, args.times)
            rows.append(searched(open_view("search").page, asked))
    parameters = {"rows": args.rows, "times": args.times, "dims": DIMS, "embed_ms": EMBED_MS}
    common.report("dashboard-paint", parameters, rows, args.json)


if __name__ == "__main__":
    main()
