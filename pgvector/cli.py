"""The command line: `hermes-pgvector ...` and `hermes pgvector ...`, one parser for both doors.

The host imports this file alone, so everything but the standard library is imported inside the commands.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
_EXITS = "Exit codes: 0 all is well, 1 something failed (what to do is printed), 2 wrong usage."
_COMMANDS: dict[str, tuple[str, str]] = {
    "doctor": ("check everything and say what to do", "hermes-pgvector doctor\nhermes-pgvector doctor --json"),
    "migrate": (
        "create or upgrade the tables, as an admin of the database",
        'hermes-pgvector migrate --admin-dsn "dbname=hermes_memory user=postgres" --runtime-role hermes\n'
        'hermes-pgvector migrate --admin-dsn "postgresql://postgres@db/hermes_memory" --dims 1024\n'
        "hermes-pgvector migrate          # embedded Postgres: starts and migrates it",
    ),
    "install": (
        "put the plugin into a hermes home and activate it",
        "hermes-pgvector install\nhermes-pgvector install --hermes-home ~/.hermes/profiles/coder --copy",
    ),
    "prove": ("write a memory and a turn, recall both in a new process", "hermes-pgvector prove"),
    "demo": (
        "let three agents with themes of their own write and recall, and show what each sees",
        "hermes-pgvector demo",
    ),
    "status": (
        "show what waits, what was written, and how every agent process of this home goes",
        "hermes-pgvector status\nhermes-pgvector status --json",
    ),
    "stats": ("print the counters, one a line, for scripts", "hermes-pgvector stats\nhermes-pgvector stats --json"),
    "spool": (
        "look at writes that Postgres refused for what they hold, try them again, or drop them",
        "hermes-pgvector spool list\n"
        "hermes-pgvector spool retry --all --yes\nhermes-pgvector spool drop 3f2a9c01 --yes",
    ),
    "server": (
        "start, stop or look at the embedded Postgres",
        "hermes-pgvector server status\nhermes-pgvector server stop",
    ),
}


def register_cli(subparser: argparse.ArgumentParser) -> None:
    """Add our commands to a parser of the host."""
    commands = subparser.add_subparsers(dest="pgvector_command", metavar="COMMAND")
    for name, (summary, examples) in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            epilog=f"Examples:\n{_indented(examples)}\n\n{_EXITS}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument(
            "--hermes-home", type=Path, metavar="DIR", help="the hermes home (default: $HERMES_HOME or ~/.hermes)"
        )
        if add_arguments := _ARGUMENTS.get(name):
            add_arguments(command)


def _migrate_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--admin-dsn", metavar="DSN", help="how to log in as an admin; may also stand in $HERMES_PGVECTOR_ADMIN_DSN"
    )
    command.add_argument(
        "--runtime-role", metavar="ROLE", default="", help="the role agents log in as; gets its rights"
    )
    command.add_argument("--dims", type=int, metavar="N", help="floats in an embedding (default: the setting `dims`)")
    command.add_argument("--json", action="store_true", help="print the result as JSON")


def _install_arguments(command: argparse.ArgumentParser) -> None:
    mode = command.add_mutually_exclusive_group()
    mode.add_argument("--shim", action="store_true", help="a few lines that import the installed package (the default)")
    mode.add_argument("--copy", action="store_true", help="a copy of the whole package")
    command.add_argument("--force", action="store_true", help="replace a plugin directory that is not ours")
    command.add_argument("--no-activate", action="store_true", help="leave memory.provider as it is")


def _doctor_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print the checklist as JSON")


def _prove_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--recall", metavar="WORD", help=argparse.SUPPRESS)  # the second process of the proof


def _server_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("action", choices=("start", "stop", "status"))


def _json_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON")


def _spool_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("action", choices=("list", "retry", "drop"))
    command.add_argument("ids", nargs="*", metavar="ID", help="the first digits of a write's id, as `list` shows it")
    command.add_argument("--all", action="store_true", help="every write that was set aside")
    command.add_argument("--yes", action="store_true", help="do it; without this only what would be done is shown")
    command.add_argument("--json", action="store_true", help="print JSON")


_ARGUMENTS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "doctor": _doctor_arguments,
    "migrate": _migrate_arguments,
    "install": _install_arguments,
    "prove": _prove_arguments,
    "server": _server_arguments,
    "status": _json_argument,
    "stats": _json_argument,
    "spool": _spool_arguments,
}


def pgvector_command(args: argparse.Namespace) -> int:
    """Run the command that the host's parser found; exits with its code when that is not 0."""
    code = _run(args)
    if code:
        raise SystemExit(code)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point of `hermes-pgvector`."""
    parser = argparse.ArgumentParser(
        prog="hermes-pgvector", description="Memory for hermes-agent on Postgres and pgvector.", epilog=_EXITS
    )
    register_cli(parser)
    args = parser.parse_args(argv)
    if not args.pgvector_command:
        parser.print_help()
        return EXIT_USAGE
    return _run(args)


def _run(args: argparse.Namespace) -> int:
    if not getattr(args, "pgvector_command", None):
        print("hermes pgvector: name a command: " + ", ".join(_COMMANDS), file=sys.stderr)
        return EXIT_USAGE
    try:
        return _RUN[args.pgvector_command](args, _home(args))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except Exception as exc:
        return _explain(exc)


def _explain(exc: Exception) -> int:
    from .domain.dsn import mask_dsn
    from .domain.errors import HermesPgvectorError

    if isinstance(exc, HermesPgvectorError):
        print(f"error: {exc}", file=sys.stderr)
    elif isinstance(exc, ImportError):
        from .host.availability import lacking

        print(f"error: {lacking() or exc} ({sys.executable}); or run scripts/install.sh again", file=sys.stderr)
    else:
        print(f"error: unexpected {type(exc).__name__}: {mask_dsn(str(exc))}", file=sys.stderr)
    return EXIT_FAILED


def _home(args: argparse.Namespace) -> Path:
    from .host.context import hermes_home

    home = hermes_home(args.hermes_home)
    # What we start from here, the host's own command among it, means the same home.
    os.environ["HERMES_HOME"] = str(home)
    return home


def _settings(home: Path) -> Any:
    from .host.context import load_settings

    loaded = load_settings(None, home)
    for warning in loaded.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return loaded.settings


def _doctor(args: argparse.Namespace, home: Path) -> int:
    from .host.context import environment
    from .operate.doctor import as_json, examine, healthy, render_text
    from .runtime.embedded import borrowed_server

    settings = _settings(home)
    api_key = environment(home).get(settings.embed_api_key_env, "")
    with borrowed_server(settings) as locate:
        checks = examine(settings, home, locate=locate, api_key=api_key)
    print(json.dumps(as_json(checks), indent=2) if args.json else render_text(checks))
    return EXIT_OK if healthy(checks) else EXIT_FAILED


def _migrate(args: argparse.Namespace, home: Path) -> int:
    from .operate.migrate import migrate_database, render_report
    from .runtime.embedded import borrowed_server

    settings = _settings(home)
    admin_dsn = args.admin_dsn or os.environ.get("HERMES_PGVECTOR_ADMIN_DSN", "")
    dims = settings.dims if args.dims is None else args.dims
    with borrowed_server(settings) as locate:
        report = migrate_database(
            settings, admin_dsn=admin_dsn, runtime_role=args.runtime_role, dims=dims, locate=locate
        )
    print(render_report(report, as_json=args.json))
    if not (args.json or admin_dsn or settings.dsn):
        from .operate.serve import whereabouts

        print(whereabouts(settings))
    return EXIT_OK


def _install(args: argparse.Namespace, home: Path) -> int:
    from .operate.activate import activate, enable, find_hermes
    from .operate.install import install_plugin

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


def _prove(args: argparse.Namespace, home: Path) -> int:
    from .host.prove import prove, recall_in_this_process

    if args.recall:
        return EXIT_OK if recall_in_this_process(home, args.recall) else EXIT_FAILED
    return EXIT_OK if prove(home) else EXIT_FAILED


def _demo(args: argparse.Namespace, home: Path) -> int:
    from .host.demo import run_demo

    return EXIT_OK if run_demo(home) else EXIT_FAILED


def _server(args: argparse.Namespace, home: Path) -> int:
    from .operate.serve import serve

    return EXIT_OK if serve(_settings(home), args.action) else EXIT_FAILED


def _status(args: argparse.Namespace, home: Path) -> int:
    from .operate.status import render_status

    status = _collected(home)
    print(json.dumps(status, indent=2) if args.json else render_status(status))
    return EXIT_FAILED if "problem" in status["database"] else EXIT_OK


def _stats(args: argparse.Namespace, home: Path) -> int:
    from .operate.status import flat

    numbers = flat(_collected(home))
    print(json.dumps(numbers) if args.json else "\n".join(f"{key} {numbers[key]}" for key in sorted(numbers)))
    return EXIT_OK


def _collected(home: Path) -> dict[str, Any]:
    from .operate.status import collect
    from .runtime.embedded import borrowed_server

    settings = _settings(home)
    with borrowed_server(settings) as locate:
        return collect(settings, home, locate)


def _spool(args: argparse.Namespace, home: Path) -> int:
    from .domain.errors import InvalidArgument
    from .operate.spools import change_aside, render_aside

    if args.action == "list":
        meant = change_aside(home, "retry", [], everything=True, really=False)
        print(render_aside(meant, as_json=args.json))
        return EXIT_OK
    if not args.ids and not args.all:
        raise InvalidArgument(f"name the writes to {args.action}, or --all; see: hermes-pgvector spool list")
    meant = change_aside(home, args.action, args.ids, everything=args.all, really=args.yes)
    print(render_aside(meant, as_json=args.json))
    if not args.json:
        done = {"retry": "put back; the next agent process writes them", "drop": "deleted"}[args.action]
        print(
            f"{len(meant)} writes {done}" if args.yes else f"{len(meant)} writes meant; nothing was changed: add --yes"
        )
    return EXIT_OK


_RUN: dict[str, Callable[[argparse.Namespace, Path], int]] = {
    "doctor": _doctor,
    "migrate": _migrate,
    "install": _install,
    "prove": _prove,
    "demo": _demo,
    "server": _server,
    "status": _status,
    "stats": _stats,
    "spool": _spool,
}


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
