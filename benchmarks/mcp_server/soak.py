"""Many MCP servers of one home under calls without a pause: whether anything is lost, and what grows.

Some servers speak stdio, one HTTP; clients remember, record turns and recall through all of them at once. Afterwards
every statement and turn that was accepted has to stand in Postgres exactly once. Exits with 1 where one does not, or
where a call failed.

    python -P benchmarks/mcp_server/soak.py [--servers 32] [--callers 200] [--seconds 600] [--json FILE]
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg

sys.path += [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]
from common import described, parser, postgres, save
from mcp import ClientSession

from tests.support.hermes import HermesHome
from tests.support.mcp_client import connected, connected_over_http, mcp_home, serving

LOOK_EVERY_S = 2.0
ARRIVE_S = 60.0
HTTP_CLIENTS = 20  # sessions, which callers share


@dataclass
class Seen:
    """What was accepted, what failed, and what servers and Postgres held at each look."""

    memories: list[str] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    looks: list[dict[str, float]] = field(default_factory=list)


async def call(client: ClientSession, seen: Seen, tool: str, arguments: dict[str, Any]) -> bool:
    """Returns whether the call was accepted."""
    seen.calls[tool] += 1
    result = await client.call_tool(tool, arguments)
    if result.isError:
        seen.failed[f"{tool}: {getattr(result.content[0], 'text', '')[:120]}"] += 1
    return not result.isError


async def caller(number: int, client: ClientSession, until: float, seen: Seen) -> None:
    """Calls in turn until the end."""
    for count in itertools.count():
        if time.monotonic() >= until:
            return
        word = f"word-{number}-{count}"
        match count % 3:
            case 0:
                if await call(client, seen, "remember", {"content": f"Caller {number} keeps {word} for good."}):
                    seen.memories.append(f"Caller {number} keeps {word} for good.")
            case 1:
                said = f"What did caller {number} say as {word} on that day?"
                answer = "It was a sentence of some length, which nobody needs."
                if await call(client, seen, "record_turn", {"user": said, "assistant": answer}):
                    seen.turns.append(said)
            case _:
                await call(client, seen, "recall", {"query": f"caller {number} word", "limit": 3})


async def look(dsn: str, seen: Seen) -> None:
    """Note now and then what the servers' processes hold."""
    began = time.monotonic()
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        seen.looks.append({"s": round(time.monotonic() - began, 1), **await asyncio.to_thread(held, dsn)})


def held(dsn: str) -> dict[str, float]:
    """What all servers hold together."""
    children = [each for each in psutil.Process().children(recursive=True) if "mcp" in each.cmdline()]
    with psycopg.connect(dsn) as conn:
        row = conn.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()").fetchone()
    return {
        "servers": len(children),
        "mib": round(sum(each.memory_info().rss for each in children) / 2**20),
        "files": sum(each.num_fds() for each in children),
        "threads": sum(each.num_threads() for each in children),
        "connections": (row or (0,))[0] - 1,
    }


@asynccontextmanager
async def clients(home: HermesHome, servers: int, url: str) -> AsyncIterator[list[ClientSession]]:
    """A client of each server over stdio, then those of the server over HTTP."""
    async with AsyncExitStack() as stack:
        over = [await stack.enter_async_context(connected(home, forking=False)) for _ in range(servers)]
        http = [await stack.enter_async_context(connected_over_http(url)) for _ in range(HTTP_CLIENTS)]
        yield [*over, *http]


async def under_load(home: HermesHome, dsn: str, args: Any, url: str) -> Seen:
    """Everything that was seen while the callers called."""
    seen = Seen()
    async with clients(home, args.servers, url) as ready:
        over, http = itertools.cycle(ready[: args.servers]), itertools.cycle(ready[args.servers :])
        until = time.monotonic() + args.seconds
        looking = asyncio.create_task(look(dsn, seen))
        chosen = [next(over) if number % 2 else next(http) for number in range(args.callers)]
        await asyncio.gather(*(caller(number, client, until, seen) for number, client in enumerate(chosen)))
        looking.cancel()
    return seen


def wrong(dsn: str, seen: Seen) -> dict[str, int]:
    """How much of what was accepted does not stand in Postgres, or more than once."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        end = time.monotonic() + ARRIVE_S
        while True:
            stored = Counter(row[0] for row in conn.execute("SELECT content FROM memory_entries"))
            stored.update(row[0] for row in conn.execute("SELECT content FROM conversations WHERE role = 'user'"))
            accepted = [*seen.memories, *seen.turns]
            lost = sum(1 for text in accepted if not stored[text])
            if not lost or time.monotonic() > end:
                return {"lost": lost, "twice": sum(1 for text in accepted if stored[text] > 1)}
            time.sleep(1)


def main() -> None:
    """Runs the servers and their callers and prints what was found."""
    made = parser(__doc__)
    made.add_argument("--servers", type=int, default=32, metavar="N", help="over stdio")
    made.add_argument("--callers", type=int, default=200, metavar="N")
    made.add_argument("--seconds", type=float, default=600.0, metavar="S")
    args = made.parse_args()
    with postgres({"max_connections": "400"}) as server, tempfile.TemporaryDirectory() as place:
        dsn = server.database(384)
        home = mcp_home(Path(place) / "agent", dsn=dsn, dims=384)
        with serving(home, "--rate", "100000", forking=False) as url:
            seen = asyncio.run(under_load(home, dsn, args, url))
        verdict = wrong(dsn, seen)
    accepted = {"memories": len(seen.memories), "turns": len(seen.turns)}
    for name, value in {"accepted": accepted, "calls": seen.calls, "failed": seen.failed, **verdict}.items():
        print(name, value)
    for each in seen.looks[:1] + seen.looks[len(seen.looks) // 2 :][:1] + seen.looks[-1:]:
        print(each)
    if args.json:
        about = f"{args.servers} servers over stdio, one over HTTP, {args.callers} callers, {args.seconds:g} s"
        found = {"accepted": accepted, "calls": seen.calls, "failed": seen.failed, **verdict}
        save(described("mcp-soak", about, "mcp") | found | {"rows": seen.looks, "notes": []}, args.json)
    sys.exit(1 if any(verdict.values()) or seen.failed else 0)


if __name__ == "__main__":
    main()
