"""migrate, install and server."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from .base import EXIT_FAILED, EXIT_OK, Command, settings_of


def _migrate_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--admin-dsn", metavar="DSN", help="how to log in as an admin; may also stand in $HERMES_PGVECTOR_ADMIN_DSN"
    )
    command.add_argument(
        "--runtime-role", metavar="ROLE", default="", help="the role agents log in as; gets its rights"
    )
    command.add_argument("--dims", type=int, metavar="N", help="floats in an embedding (default: the setting `dims`)")
    command.add_argument("--json", action="store_true", help="print the result as JSON")


def _migrate(args: argparse.Namespace, home: Path) -> int:
    from ..operate.migrate import migrate_database, render_report
    from ..runtime.embedded import borrowed_server

    settings = settings_of(home)
    admin_dsn = args.admin_dsn or os.environ.get("HERMES_PGVECTOR_ADMIN_DSN", "")
    dims = settings.dims if args.dims is None else args.dims
    with borrowed_server(settings) as locate:
        report = migrate_database(
            settings, admin_dsn=admin_dsn, runtime_role=args.runtime_role, dims=dims, locate=locate
        )
    print(render_report(report, as_json=args.json))
    if not (args.json or admin_dsn or settings.dsn):
        from ..operate.serve import whereabouts

        print(whereabouts(settings))
    return EXIT_OK


def _install_arguments(command: argparse.ArgumentParser) -> None:
    mode = command.add_mutually_exclusive_group()
    mode.add_argument("--shim", action="store_true", help="a few lines that import the installed package (the default)")
    mode.add_argument("--copy", action="store_true", help="a copy of the whole package")
    command.add_argument("--force", action="store_true", help="replace a plugin directory that is not ours")
    command.add_argument("--no-activate", action="store_true", help="leave memory.provider as it is")


def _install(args: argparse.Namespace, home: Path) -> int:
    from ..operate.activate import activate, enable, find_hermes
    from ..operate.install import install_plugin

    report = install_plugin(home, mode="copy" if args.copy else "shim", force=args.force)
    print(f"plugin {report.action}: {report.path} ({report.mode}, version {report.version})")
    if report.note:
        print(report.note)
    if not args.no_activate:
        hermes = find_hermes()
        print(f"memory.provider is pgvector: {activate(home, hermes)}")
        if not enable(home, hermes):
            print("to load it before the first requests, run: hermes plugins enable pgvector")
    return EXIT_OK


def _server_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("action", choices=("start", "stop", "status"))


def _server(args: argparse.Namespace, home: Path) -> int:
    from ..operate.serve import serve

    return EXIT_OK if serve(settings_of(home), args.action) else EXIT_FAILED


MIGRATE = Command(
    "migrate",
    "create or upgrade the tables, as an admin of the database",
    'hermes-pgvector migrate --admin-dsn "dbname=hermes_memory user=postgres" --runtime-role hermes\n'
    'hermes-pgvector migrate --admin-dsn "postgresql://postgres@db/hermes_memory" --dims 1024\n'
    "hermes-pgvector migrate          # embedded Postgres: starts and migrates it",
    _migrate,
    _migrate_arguments,
)
INSTALL = Command(
    "install",
    "put the plugin into a hermes home and activate it",
    "hermes-pgvector install\nhermes-pgvector install --hermes-home ~/.hermes/profiles/coder --copy",
    _install,
    _install_arguments,
)
SERVER = Command(
    "server",
    "start, stop or look at the embedded Postgres",
    "hermes-pgvector server status\nhermes-pgvector server stop",
    _server,
    _server_arguments,
)
