"""What the MCP server adds to a tool call: `recall` over stdio beside the plugin's own call, in turn, in one run.

Both recall the same of the same memories; the plugin's call is made in this process, as hermes-agent makes it. `ping`
is an empty call; `checked` is one whose answer the SDK's client compares with the tool's schema, as it does by itself.
Then a server is started anew a few times, to see how long a client waits for its first answer, and how much of that an
interpreter needs that only imports the SDK.

    python -P benchmarks/mcp_server/latency.py [--calls 300] [--starts 5] [--json FILE]
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]
from common import described, parser, postgres, save
from mcp import types

from hermes_memory_pgvector.mcp.access import Access, Place
from hermes_memory_pgvector.mcp.client_memory import ClientMemory
from hermes_memory_pgvector.runtime.process import close_all
from tests.support.hermes import HermesHome
from tests.support.mcp_client import called, connected, mcp_home

MEMORIES = 200
QUERY = "Which room has the projector of number 7?"


def milliseconds(times: list[float]) -> dict[str, float]:
    """Median and 95th percentile."""
    ranked = sorted(times)
    return {"p50": 1000 * statistics.median(ranked), "p95": 1000 * ranked[int(len(ranked) * 0.95)]}


async def calls(home: HermesHome, count: int) -> dict[str, Any]:
    """The times of calls over stdio and of the same call of the plugin, one after the other."""
    plugin = ClientMemory(home.path, Place("", "benchmark", Access(), "benchmark"))
    over: list[float] = []
    direct: list[float] = []
    empty: list[float] = []
    checked: list[float] = []
    params = types.CallToolRequestParams(name="recall", arguments={"query": QUERY, "of": "memories"})
    request = types.ClientRequest(types.CallToolRequest(params=params))
    async with connected(home, forking=False) as client:
        for number in range(MEMORIES):
            text = f"Room {number} has projector {number} and a whiteboard."
            await called(client, "remember", content=text, sync=number == MEMORIES - 1)
        for number in range(count + 20):
            before = time.perf_counter()
            await client.send_request(request, types.CallToolResult)
            between = time.perf_counter()
            plugin.recall("recall_memory", {"query": QUERY})
            after = time.perf_counter()
            await client.send_ping()
            pinged = time.perf_counter()
            await called(client, "recall", query=QUERY, of="memories")
            if number >= 20:  # the first ones open connections
                over.append(between - before)
                direct.append(after - between)
                empty.append(pinged - after)
                checked.append(time.perf_counter() - pinged)
    added = statistics.median(over) - statistics.median(direct)
    figures = {"stdio_ms": milliseconds(over), "plugin_ms": milliseconds(direct), "ping_ms": milliseconds(empty)}
    figures["checked_ms"] = milliseconds(checked)
    return figures | {"added_ms": 1000 * added, "ratio": statistics.median(over) / statistics.median(direct)}


async def start(home: HermesHome) -> float:
    """How long the first answer of a new server takes, from its start."""
    before = time.perf_counter()
    async with connected(home, forking=False) as client:
        await called(client, "recall", query=QUERY, of="memories")
        return time.perf_counter() - before


def imported() -> float:
    """How long an interpreter takes that only imports what the SDK needs for stdio."""
    before = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", "import mcp.server.lowlevel, mcp.server.stdio"], check=True)
    return time.perf_counter() - before


def main() -> None:
    """Measures and prints."""
    made = parser(__doc__)
    made.add_argument("--calls", type=int, default=300, metavar="N")
    made.add_argument("--starts", type=int, default=5, metavar="N")
    args = made.parse_args()
    with postgres() as server, tempfile.TemporaryDirectory() as place:
        home = mcp_home(Path(place) / "agent", dsn=server.database(384), dims=384)
        figures = asyncio.run(calls(home, args.calls))
        close_all()
        starts = [asyncio.run(start(home)) for _ in range(args.starts)]
        figures |= {"start_s": statistics.median(starts)}
        figures |= {"sdk_import_s": statistics.median(imported() for _ in range(args.starts))}
    rows = [{"what": what, **(value if isinstance(value, dict) else {"p50": value})} for what, value in figures.items()]
    for row in rows:
        print(row)
    if args.json:
        about = "p50 and p95; *_ms in milliseconds, *_s in seconds."
        save(described("mcp-latency", about, "mcp") | {"rows": rows, "notes": []}, args.json)


if __name__ == "__main__":
    main()
