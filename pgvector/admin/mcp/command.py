"""The command `mcp`: serves the memory to other agents over the Model Context Protocol."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from ...domain.errors import ConfigurationError, WrongUsage
from ...mcp.http_guard import AsgiApp, HttpGuard, HttpLimits
from ...mcp.serving import COMPATIBLE, Served, serve_http, serve_stdio
from ...mcp.tokens import TokenFile
from ..common.commands import EXIT_OK, Command, Verb, argument, positive
from ..common.installation import package_version
from .check_command import CHECK
from .client_command import INSTALL, sdk_lacks
from .token_command import TOKEN

_RATE = 100


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError("write HOST:PORT, as 127.0.0.1:8766")
    return host.strip("[]"), int(port)


def _host_name(text: str) -> str:
    """Return the name as it appears in a Host header, without the port; a name with more in it could never match."""
    name = text.strip("[]")
    with contextlib.suppress(ValueError):
        ip_address(name)
        return name
    if not name or set(name) & set("/:@?#*") or not name.isprintable() or " " in name:
        raise argparse.ArgumentTypeError("write the name alone, without scheme, port and path: memory.example.com")
    return name


def _serve(args: argparse.Namespace, home: Path) -> int:
    if args.json:
        raise WrongUsage("mcp speaks its protocol: it has no --json")
    served = Served(home, package_version(), args.theme or "", args.compat or "")
    try:
        if args.http:
            host, port = args.http
            serve_http(served, host, port, _guard(args, home))
        else:
            serve_stdio(served)
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in ("mcp", "starlette", "uvicorn"):
            raise
        raise ConfigurationError(sdk_lacks()) from exc
    return EXIT_OK


def _guard(args: argparse.Namespace, home: Path) -> Callable[[AsgiApp], AsgiApp]:
    limits = HttpLimits(requests_per_s=args.rate, burst=4 * args.rate)
    return partial(HttpGuard, tokens=TokenFile(home), listen=args.http[0], names=args.allow_host or (), limits=limits)


MCP = Command(
    "hermes-pgvector mcp                              # for a client that starts it: stdio\n"
    "hermes-pgvector mcp --theme marketing\n"
    "hermes-pgvector mcp --http 127.0.0.1:8766\n"
    "hermes-pgvector mcp --compat search-fetch\n"
    "hermes-pgvector mcp install --client claude-code",
    _serve,
    [
        argument("--theme THEME", "the theme for all that connect (default: the project folder)"),
        argument("--compat", "serve these tools instead of ours", choices=COMPATIBLE),
        argument("--http HOST:PORT", "serve many clients over streamable HTTP", type=_address),
        argument(
            "--allow-host NAME",
            "a further name that clients call the server by over HTTP; may be repeated",
            type=_host_name,
            action="append",
        ),
        argument(
            "--rate N",
            f"requests a second of one token, or of one address without tokens (default: {_RATE}), four times as "
            "many at once",
            type=positive,
            default=_RATE,
        ),
    ],
    actions=[
        Verb("install", "put the server into the configuration of another agent", INSTALL),
        Verb("check", "start the server as a client would, and call its tools", CHECK),
        Verb("token", "make, list and remove the tokens that clients show over HTTP", TOKEN),
    ],
)
