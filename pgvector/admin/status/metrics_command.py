"""The command metrics."""

from __future__ import annotations

import argparse
import sys
import threading
from contextlib import closing
from pathlib import Path

from ...domain.commandline import pip_install
from ...domain.errors import ConfigurationError, WrongUsage
from ..common.commands import EXIT_OK, Command, argument, print_json
from ..common.database import settings_of
from ..common.embedded_server import borrowed_server
from ..common.repeat import repeatedly, seconds, until_ended
from .report import Watcher

_PACKAGE = "prometheus_client"


def _metrics(args: argparse.Namespace, home: Path) -> int:
    _check(args)
    try:
        from . import prometheus  # it needs a package of an extra that may not be installed
    except ImportError as exc:
        raise ConfigurationError(
            f"metrics need the package {_PACKAGE}, the extra `metrics` of hermes-memory-pgvector, which "
            f"{sys.executable} lacks; run: {pip_install(_PACKAGE)}"
        ) from exc
    if args.listen is not None:
        prometheus.parse_address(args.listen)
    settings = settings_of(home)
    once = args.listen is None and args.every is None
    with (
        until_ended(),
        borrowed_server(settings) as locate,
        closing(Watcher(settings, home, locate, patient=once)) as watcher,
    ):
        registry = prometheus.registry_of(watcher.look)
        if args.listen is not None:
            with prometheus.listen(registry, args.listen) as url:
                print(f"metrics are at {url}", file=sys.stderr, flush=True)
                threading.Event().wait()
        elif args.every is not None:
            for _ in repeatedly(args.every):
                prometheus.write_textfile(registry, args.textfile)
        elif args.textfile is not None:
            prometheus.write_textfile(registry, args.textfile)
        elif args.json:
            print_json(prometheus.as_json(registry))
        else:
            sys.stdout.write(prometheus.as_text(registry))
    return EXIT_OK


def _check(args: argparse.Namespace) -> None:
    if args.every is not None and args.textfile is None:
        raise WrongUsage("--every goes with --textfile")
    if sum((args.listen is not None, args.textfile is not None, args.json)) > 1:
        raise WrongUsage("give one of --listen, --textfile and --json")


METRICS = Command(
    "hermes-pgvector metrics\nhermes-pgvector metrics --listen 127.0.0.1:9187\n"
    "hermes-pgvector metrics --textfile /var/lib/node_exporter/hermes.prom --every 30",
    _metrics,
    [
        argument("--listen HOST:PORT", "serve them over HTTP until interrupted, as 127.0.0.1:9187 or [::1]:9187"),
        argument("--textfile FILE", "write them to a file, as the node exporter's *.prom", type=Path),
        argument("--every SECONDS", "with --textfile: write it anew so often, until interrupted", type=seconds),
    ],
)
