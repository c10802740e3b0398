"""The command line: `hermes-pgvector ...` and `hermes pgvector ...`, one parser for both.

The host imports this file alone, so everything but the standard library is imported inside the functions.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .admin.common.commands import Verb

_NEED_NO_HOME = ("setup", "install", "migrate", "model", "server", "demo", "completion")  # they create it, or use none
_TAKES_NO_MORE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def command_groups() -> dict[str, tuple[Verb, ...]]:
    """Return every verb, in the groups and the order of the help; its module is loaded only when it is used."""
    from .admin.common.commands import Command, Verb, argument

    completion = Command(
        'eval "$(hermes-pgvector completion bash)"      # in ~/.bashrc\n'
        'eval "$(hermes-pgvector completion zsh)"       # in ~/.zshrc, after compinit\n'
        "hermes-pgvector completion fish > ~/.config/fish/completions/hermes-pgvector.fish",
        _completion,
        [argument("shell", "the shell to complete in", choices=("bash", "zsh", "fish"))],
    )
    export_theme = Verb("export", "write a theme as JSON Lines", "transfer.command:EXPORT_THEME")
    return {
        "set up": (
            Verb("setup", "choose database and embedding model, try both, save and activate", "setup.command"),
            Verb("install", "put the plugin into a hermes home and activate it", "setup.install_command"),
            Verb("migrate", "create or upgrade the tables, as an admin of the database", "migrate.command"),
            Verb(
                "model",
                "list, install, verify and remove embedding models that run in the agent's process",
                "models.command",
            ),
            Verb("server", "start, stop or look at the embedded Postgres", "setup.server_command"),
            Verb("tenants", "say which database role may read and write which themes", "tenants.command"),
            Verb(
                "demo",
                "let three agents with themes of their own write and recall, and show what each sees",
                "doctor.demo",
            ),
            Verb("mcp", "give other agents this memory: a server of the Model Context Protocol", "mcp.command"),
            Verb("completion", "print a script that completes our commands in a shell", completion),
            Verb(
                "deactivate",
                "give memory back to the provider that was active before, keeping everything",
                "setup.install_command",
            ),
            Verb(
                "uninstall",
                "take the plugin out of a hermes home, with or without what it keeps on this machine",
                "setup.uninstall",
            ),
        ),
        "watch": (
            Verb(
                "status",
                "show what is stored, what waits, and how every agent process of this home is doing",
                "status.command",
            ),
            Verb("stats", "print the counters, one a line, for scripts", "status.command"),
            Verb("metrics", "give Prometheus what status shows, over HTTP or in a file", "status.metrics_command"),
            Verb("web", "look at the memory and correct it in a browser, without hermes", ".dashboard.web_command"),
        ),
        "see and correct": (
            Verb("search", "search memories and turns as the agents' tools do", "browse.search_command"),
            Verb("list", "list memories or turns of a theme, newest first", "browse.command"),
            Verb("show", "show one memory or turn with all that is known of it", "browse.command"),
            Verb("history", "show who wrote, replaced, moved and removed memories, and when", "browse.command"),
            Verb("sessions", "list the sessions of a theme, and read one", "browse.command"),
            Verb("themes", "show, rename, merge, delete and export themes", "themes.command", [export_theme]),
            Verb("add", "store a memory", "edit.add_command"),
            Verb("edit", "change what a memory says", "edit.command"),
            Verb("forget", "delete memories or turns for good, with everything derived from them", "edit.command"),
            Verb(
                "facts",
                "list, add, edit and delete memories by kind and subject; have a model propose some",
                "facts.command",
            ),
            Verb("reflections", "list what went well or badly", "facts.command"),
            Verb(
                "restore",
                "restore memories that were removed from a memory file, with their theme, times and origin",
                "edit.removals_command",
            ),
            Verb(
                "removals",
                "decide what becomes of memories that a lost, emptied or shortened memory file held",
                "edit.removals_command",
            ),
        ),
        "keep": (
            Verb("prune", "delete old turns, by age, theme, role, number or size", "prune.command"),
            Verb("purge", "delete memories that were superseded or archived, or have expired", "prune.purge_command"),
            Verb(
                "compact",
                "make old turns smaller: delete duplicates, reduce vectors to codes; first measures what that costs",
                "compact.command",
            ),
            Verb(
                "relieve",
                "move entries of MEMORY.md and USER.md that need not be in every prompt into the database",
                "relieve.command",
            ),
        ),
        "move": (
            Verb("export", "write memories and turns to a file", "transfer.command"),
            Verb("import", "import what export wrote, each row once", "transfer.command"),
            Verb("bring", "bring history from the host and from other memory providers", "transfer.bring_command"),
            Verb("copy", "copy everything to another database, and switch to it", "transfer.copy_command"),
        ),
        "fix": (
            Verb("doctor", "check everything and say what to do", "doctor.command"),
            Verb("prove", "write a memory and a turn, recall both in a new process", "doctor.prove"),
            Verb(
                "spool",
                "look at writes that Postgres rejected for their content, try them again, or drop them",
                "status.command",
            ),
            Verb(
                "backfill",
                "embed the rows that wait for a vector, rather than leave it to the agents",
                "reembed.command",
            ),
            Verb(
                "reembed",
                "change the embedding model while the agents go on; may be stopped, run again, and run on several "
                "hosts at once",
                "reembed.command",
            ),
            Verb(
                "index",
                "show the HNSW indexes, drop them before a bulk load, build them after it",
                "index.command",
            ),
        ),
    }


def _completion(args: argparse.Namespace, home: Path) -> int:
    import shtab

    from .admin.common.commands import fill_all, printed

    whole = command_line()
    fill_all(whole)
    script = shtab.complete(whole, shell=args.shell)
    return printed(args, {"shell": args.shell, "script": script}, lambda: print(script))


def register_cli(subparser: argparse.ArgumentParser) -> None:
    """Add our commands to a parser of the host."""
    from .admin.common.commands import add_groups

    add_groups(subparser, command_groups())


def pgvector_command(args: argparse.Namespace) -> int:
    """Run the command that the host's parser found; exits with its code when that is not 0."""
    from .admin.common.console import settle_streams

    settle_streams()
    try:
        code = _run(args)
    except (ImportError, SyntaxError) as exc:
        code = _tell_damage(exc, as_json=getattr(args, "json", False))
    if code:
        raise SystemExit(code)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run `hermes-pgvector` and return its exit code."""
    as_json = "--json" in (sys.argv if argv is None else argv)
    try:
        return _main(argv)
    except (ImportError, SyntaxError) as exc:
        return _tell_damage(exc, as_json=as_json)
    except KeyboardInterrupt as exc:  # while modules are loaded, or before the command began
        return _interrupted(argparse.Namespace(json=as_json), exc)
    finally:
        if argv is None:
            _have_ctrl_c_end_the_process()


def _have_ctrl_c_end_the_process() -> None:
    """Have Ctrl-C end this process at once from now on, as SIGTERM does: all is done, and an exception told nobody."""
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _main(argv: Sequence[str] | None) -> int:
    from .admin.common.commands import EXIT_USAGE
    from .admin.common.console import settle_streams

    settle_streams()
    try:
        parser = command_line()
        args = parser.parse_args(argv)
    except OSError as exc:  # stdout could take neither the help nor the version
        return _explain(exc, as_json=False)
    if not args.pgvector_command:
        parser.print_help()
        return EXIT_USAGE
    return _run(args)


def command_line() -> argparse.ArgumentParser:
    """Return the parser of `hermes-pgvector`."""
    from .admin.common.commands import EXITS, Parser, ShowVersion

    parser = Parser(
        prog="hermes-pgvector", description="Memory for hermes-agent on Postgres and pgvector.", epilog=EXITS
    )
    parser.add_argument("--version", action=ShowVersion, help="print the version")
    register_cli(parser)
    return parser


def _run(args: argparse.Namespace) -> int:
    from .admin.common.commands import EXIT_OK, EXIT_USAGE
    from .admin.common.console import abandon
    from .admin.common.repeat import ended_as_by_ctrl_c

    if not getattr(args, "pgvector_command", None):
        names = ", ".join(verb.name for verbs in command_groups().values() for verb in verbs)
        print(f"hermes pgvector: name a command: {names}; see: hermes pgvector --help", file=sys.stderr)
        return EXIT_USAGE
    try:
        with ended_as_by_ctrl_c():
            code: int = args.pgvector_run(args, _home(args))
            sys.stdout.flush()
        return code
    except KeyboardInterrupt as exc:
        return _interrupted(args, exc)
    except BrokenPipeError:
        abandon(sys.stdout)
        return EXIT_OK
    except Exception as exc:
        if interruption := _interruption_before(exc):
            return _interrupted(args, interruption)
        return _explain(exc, as_json=getattr(args, "json", False))


def _interruption_before(exc: BaseException) -> KeyboardInterrupt | None:
    """Return the interruption that led to an error, such as the last statement on a connection that it left busy."""
    earlier = exc.__context__
    while earlier is not None and not isinstance(earlier, KeyboardInterrupt):
        earlier = earlier.__context__
    return earlier


def _interrupted(args: argparse.Namespace, exc: KeyboardInterrupt) -> int:
    from .admin.common.commands import EXIT_INTERRUPTED

    # Ctrl-C is how `--watch` ends, after whole answers.
    if getattr(args, "json", False) and getattr(args, "watch", None) is None:
        _print_error("interrupted before it was done", exc)
    return EXIT_INTERRUPTED


def _damage(exc: ImportError | SyntaxError) -> str:
    """Return what makes this package whole, if `exc` says that a module of it cannot be loaded; "" if it does not."""
    try:
        from .admin.common.own_package import damage
    except (ImportError, SyntaxError) as lost:
        again = f"{sys.executable} -m pip install --force-reinstall hermes-memory-pgvector"
        return f"this package is damaged ({lost}); to make it whole, install it from where it came, as by: {again}"
    return damage(exc)


def _tell_damage(exc: ImportError | SyntaxError, *, as_json: bool) -> int:
    """Print what makes the package whole, with none of its modules; raise `exc` if it is not about the package."""
    message = _damage(exc)
    if not message:
        raise exc
    print(f"error: {message}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": message, "type": type(exc).__name__}))
    return 1


def _explain(exc: Exception, *, as_json: bool) -> int:
    if isinstance(exc, (ImportError, SyntaxError)) and _damage(exc):
        return _tell_damage(exc, as_json=as_json)
    from .admin.common.commands import EXIT_FAILED, EXIT_USAGE, missing_package
    from .admin.common.console import complain
    from .domain.errors import HermesPgvectorError, WrongUsage
    from .domain.redaction import mask_dsn

    unexpected = False
    if isinstance(exc, HermesPgvectorError):
        message = str(exc)
    elif isinstance(exc, ImportError):
        message = missing_package(exc)
    elif isinstance(exc, OSError) and exc.errno in _TAKES_NO_MORE:
        message = f"what this writes or prints finds no room: {exc.strerror}; make some there, and run it again"
    else:
        unexpected = True
        message = f"unexpected {type(exc).__name__}: {mask_dsn(str(exc))}"
    complain(message)
    _print_error(message if as_json else "", exc)
    if unexpected:
        _tell_where(exc)
    return EXIT_USAGE if isinstance(exc, WrongUsage) else EXIT_FAILED


def _print_error(message: str, exc: BaseException) -> None:
    """Print an error as JSON, unless it is empty, and whatever stdout still holds."""
    from .admin.common.commands import print_error
    from .admin.common.console import abandon

    try:
        if message:
            print_error(message, type(exc).__name__)
        sys.stdout.flush()
    except OSError:
        abandon(sys.stdout)


def _tell_where(exc: Exception) -> None:
    from .domain.redaction import mask_dsn

    if os.environ.get("HERMES_PGVECTOR_DEBUG"):
        import traceback

        print(mask_dsn("".join(traceback.format_exception(exc))), file=sys.stderr)
    else:
        print("to see where it happened, for a report: HERMES_PGVECTOR_DEBUG=1", file=sys.stderr)


def _home(args: argparse.Namespace) -> Path:
    from .domain.errors import WrongUsage
    from .host.session_context import hermes_home

    home = hermes_home(args.hermes_home)
    named = f"--hermes-home {args.hermes_home}" if args.hermes_home else f"HERMES_HOME={os.environ.get('HERMES_HOME')}"
    is_named = args.hermes_home or os.environ.get("HERMES_HOME", "").strip()
    if str(home).startswith("~") and not home.is_dir():
        raise WrongUsage(f"{named}: hermes replaces no ~ there; write the whole path")
    if args.pgvector_command not in _NEED_NO_HOME and _is_missing(home):
        if is_named:
            raise WrongUsage(f"{named}: there is no such directory; correct it, or make one: hermes-pgvector install")
        if not (_serves_clients(args) or _finds_database(args, home)):
            raise WrongUsage(
                f"{home}: there is no such directory, and no other home is named; name yours by --hermes-home or "
                "HERMES_HOME, or make one: hermes-pgvector install"
            )
    # Every process that we start from here, also the host's own command, then uses the same home.
    os.environ["HERMES_HOME"] = str(home)
    return home


def _is_missing(home: Path) -> bool:
    """Return whether there is no such directory; one that this user may not look at is left to what reads its files."""
    try:
        return not S_ISDIR(os.stat(home).st_mode)
    except PermissionError:
        return False
    except OSError:
        return True


def _serves_clients(args: argparse.Namespace) -> bool:
    """Return whether the command is `mcp` itself: what a client of it remembers makes the home, without hermes."""
    return args.pgvector_command == "mcp" and not vars(args).get("pgvector_command_1")


def _finds_database(args: argparse.Namespace, home: Path) -> bool:
    """Return whether there is a database without the home: one that is named, or the one that a lost home has left."""
    from .server.home_record import has_data
    from .server.layout import root_of

    variables = [f"HERMES_PGVECTOR_{name}" for name in ("DSN", "ADMIN_DSN", "EMBEDDED_DIR")]
    return bool(vars(args).get("admin_dsn") or any(map(os.environ.get, variables))) or has_data(root_of(home))


if __name__ == "__main__":
    sys.exit(main())
