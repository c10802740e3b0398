"""mcp: the memory for other agents, as a server of the Model Context Protocol."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ...domain.commandline import pip_install
from ...domain.errors import WrongUsage
from ...mcp.serving import TOOL_SETS, Served, serve_http, serve_stdio
from ..common.commands import EXIT_OK, Command, argument
from ..common.installation import package_version

_PACKAGE = "mcp>=1.26,<3"


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError("write HOST:PORT, as 127.0.0.1:8766")
    return host.strip("[]"), int(port)


def _serve(args: argparse.Namespace, home: Path) -> int:
    if args.json:
        raise WrongUsage("mcp speaks its protocol: it has no --json")
    served = Served(home, package_version(), args.theme or "", args.compat or "")
    try:
        if args.http:
            serve_http(served, *args.http)
        else:
            serve_stdio(served)
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in ("mcp", "starlette", "uvicorn"):
            raise
        print(f"error: this Python lacks the MCP SDK; run: {pip_install(_PACKAGE)}", file=sys.stderr)
        return 1
    return EXIT_OK


MCP = Command(
    "hermes-pgvector mcp                              # for a client that starts it: stdio\n"
    "hermes-pgvector mcp --theme marketing\n"
    "hermes-pgvector mcp --http 127.0.0.1:8766\n"
    "hermes-pgvector mcp --compat search-fetch",
    _serve,
    [
        argument("--theme", metavar="THEME", help="the theme for all that connect (default: see docs/mcp.md)"),
        argument("--compat", choices=sorted(filter(None, TOOL_SETS)), help="serve these tools instead of ours"),
        argument("--http", type=_address, metavar="HOST:PORT", help="serve many clients over streamable HTTP"),
    ],
)
