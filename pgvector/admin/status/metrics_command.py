"""metrics."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from ..common.commands import EXIT_OK, Command, print_json, settings_of
from ..common.repeat import repeatedly, seconds, until_ended

_PACKAGE = "prometheus_client"


def _arguments(command: argparse.ArgumentParser) -> None:
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="serve them over HTTP until interrupted, as 127.0.0.1:9187 or [::1]:9187",
    )
    where.add_argument(
        "--textfile", type=Path, metavar="FILE", help="write them to a file, as the node exporter's *.prom"
    )
    where.add_argument("--json", action="store_true", help="print them as JSON, once")
    command.add_argument(
        "--every", type=seconds, metavar="SECONDS", help="with --textfile: write it anew so often, until interrupted"
    )


def _metrics(args: argparse.Namespace, home: Path) -> int:
    from ...domain.commandline import pip_install
    from ...domain.errors import ConfigurationError, WrongUsage

    if args.every is not None and args.textfile is None:
        raise WrongUsage("--every goes with --textfile")
    try:
        import prometheus_client  # noqa: F401
    except ImportError as exc:
        raise ConfigurationError(
            f"metrics need the package {_PACKAGE}, the extra `metrics` of hermes-memory-pgvector, which "
            f"{sys.executable} lacks; run: {pip_install(_PACKAGE)}"
        ) from exc
    _expose(args, home)
    return EXIT_OK


def _expose(args: argparse.Namespace, home: Path) -> None:
    from ..common.embedded_server import borrowed_server
    from .prometheus import as_json, as_text, listen, parse_address, registry_of, write_textfile
    from .report import Watcher

    if args.listen is not None:
        parse_address(args.listen)
    settings = settings_of(home)
    with until_ended(), borrowed_server(settings) as locate, Watcher(settings, home, locate) as watcher:
        registry = registry_of(watcher.look)
        if args.listen is not None:
            with listen(registry, args.listen) as url:
                print(f"metrics are at {url}", file=sys.stderr, flush=True)
                threading.Event().wait()
        elif args.every is not None:
            for _ in repeatedly(args.every):
                write_textfile(registry, args.textfile)
        elif args.textfile is not None:
            write_textfile(registry, args.textfile)
        elif args.json:
            print_json(as_json(registry))
        else:
            sys.stdout.write(as_text(registry))


METRICS = Command(
    "metrics",
    "give Prometheus what status shows, over HTTP or in a file",
    "hermes-pgvector metrics\nhermes-pgvector metrics --listen 127.0.0.1:9187\n"
    "hermes-pgvector metrics --textfile /var/lib/node_exporter/hermes.prom --every 30",
    _metrics,
    _arguments,
)
