"""The command `copy`."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from ...config.settings import Settings
from ...domain.commandline import typed
from ...domain.errors import ConfigurationError, DimensionMismatch, WrongUsage
from ...domain.format import plural
from ...domain.redaction import mask_dsn
from ...host.session_context import Policy
from ...store.connection import DeadlineConnection
from ..common.admin_login import admin_conninfo
from ..common.commands import (
    EXIT_FAILED,
    EXIT_OK,
    Command,
    add_admin_dsn,
    argument,
    given_admin_dsn,
    printed,
)
from ..common.console import Column, say, show_table, warn
from ..common.database import connection, settings_of
from ..common.database_identity import identity
from ..common.migrations import DROP_SCRIPT
from ..common.outcome import counted
from ..common.profiles_left import profiles_left
from ..common.saving import after, changes_to, save, warn_overruled
from ..common.stopped import said_if_stopped
from .command import add_themes, if_stopped, show_arrivals
from .copy_themes import Copy, CopyRequest, copy, one_database

_ENV = "HERMES_PGVECTOR_TARGET_DSN"
_EMBEDDED = "embedded"
_COLUMNS = (
    Column("theme", flexible=True),
    Column("source_rows", "here", right=True),
    Column("target_rows", "there", right=True),
    Column("result"),
)


def _copy(args: argparse.Namespace, home: Path) -> int:
    settings = settings_of(home)
    to = _target_dsn(args, settings)
    _check_switch(args)
    source, target = _source(settings, args.source), dataclasses.replace(settings, dsn=to)
    if source.dsn == target.dsn:  # known before an embedded server is started
        raise one_database()
    with (
        connection(source, named="--from" if args.source else "dsn") as here,
        _dims_explained(target.dims),
        _target(args, target) as there,
        said_if_stopped(if_stopped(really=not args.dry_run)),
    ):
        done = copy(CopyRequest(here, there, settings, Policy.of(settings).rules, args.themes, not args.dry_run))
    if args.dry_run:
        return printed(args, {"done": False} | done.as_json() | {"verified": None}, lambda: _show_planned(done))
    switched = args.switch and done.verified and _switch(home, settings, to)
    note = profiles_left(home, settings, target) if switched else ""
    told = {"done": True} | done.as_json() | {"switched": switched, "note": typed(note)}
    printed(args, told, lambda: _show(done, switched=switched, left=settings.dsn, note=note))
    if args.switch and not done.verified:
        warn("the settings were left as they are: not everything arrived")
    return EXIT_OK if done.verified else EXIT_FAILED


def _check_switch(args: argparse.Namespace) -> None:
    """Raise WrongUsage if the settings are to be switched by a run that does not copy everything."""
    if args.switch and args.dry_run:
        raise WrongUsage("--switch and --dry-run do not go together: a dry run changes nothing")
    if args.switch and args.themes:
        raise WrongUsage("--switch goes with a copy of all themes only: the others would be left behind")


def _target_dsn(args: argparse.Namespace, settings: Settings) -> str:
    """Return the DSN to copy to, empty for the embedded server. Raises WrongUsage if none is named."""
    to = str(args.to or os.environ.get(_ENV, ""))
    if not to and not args.source:
        raise WrongUsage(f"name the database to copy to: --to DSN, or ${_ENV}")
    return _named(to) if to else settings.dsn


@contextlib.contextmanager
def _dims_explained(dims: int) -> Iterator[None]:
    """Explain what to do about a target with vectors of another length: what an agent is told is about the source."""
    try:
        yield
    except DimensionMismatch as exc:
        said = str(exc).partition(";")[0].replace("the database", "the database to copy to")
        raise DimensionMismatch(
            f"{said}; if nothing is in it yet, an admin removes its tables: psql -d DATABASE -v ON_ERROR_STOP=1 -f "
            f"{quote(str(DROP_SCRIPT))}; and makes them anew: hermes-pgvector migrate --admin-dsn DSN --runtime-role "
            f"ROLE --dims {dims}; if it is in use, this memory takes its model first: hermes-pgvector reembed"
        ) from exc


@contextlib.contextmanager
def _target(args: argparse.Namespace, target: Settings) -> Iterator[DeadlineConnection]:
    """Yield a connection to the target, with an admin's login if one was given or the server is embedded."""
    if not target.dsn and not args.admin_dsn:
        with admin_conninfo(target, "") as own, connection(target, own) as there:
            yield there
        return
    admin = given_admin_dsn(args)
    option = "--to" if args.to or not args.source else "dsn"
    with connection(target, admin, named="--admin-dsn" if admin else option) as there:
        if admin:
            with connection(target) as agents:
                if identity(agents) != identity(there):
                    raise ConfigurationError("--admin-dsn leads to another database than --to")
        yield there


def _named(database: str) -> str:
    return "" if database == _EMBEDDED else database


def _source(settings: Settings, named: str | None) -> Settings:
    if named is None:
        return settings
    return dataclasses.replace(settings, dsn=_named(named))


def _switch(home: Path, settings: Settings, to: str) -> bool:
    wanted = dataclasses.replace(settings, dsn=to)
    with after("every row is there"):
        save(home, changes_to(home, settings, wanted))
    warn_overruled(home, wanted)
    return True


def _show(done: Copy, *, switched: bool, left: str, note: str) -> None:
    show_arrivals(done.arrivals, dry_run=False)
    rows = [each.as_row() for each in done.themes]
    # Themes that consist only of tombstones are not shown.
    told = [row for row in rows if row["source_rows"] or row["target_rows"]]
    show_table(_COLUMNS, told, empty="there is nothing to copy")
    _show_left_behind(done, switched=switched)
    if done.verified:
        say("verified: every row is there", "green")
    else:
        warn("some rows are missing there: run the same again; if they stay missing: hermes-pgvector doctor")
    if switched:
        say(
            "this home uses the other database now: restart the agents, then bring what they wrote until then: "
            + typed(f"hermes-pgvector copy --from {'OLD_DSN' if left else _EMBEDDED}")
        )
        if left:  # nothing else may know it any more
            say(f"OLD_DSN was: {mask_dsn(left)}")
    if note:
        say(typed(note))


def _show_planned(done: Copy) -> None:
    show_arrivals(done.arrivals, dry_run=True)
    if done.removed:
        warn(
            "would be removed there for good, as they were removed at the source after they were last confirmed there: "
            f"{counted({'memories': done.removed})}"
        )


def _show_left_behind(done: Copy, *, switched: bool) -> None:
    if done.removed:
        say(
            "removed there too, as they were removed at the source after they were last confirmed there: "
            f"{counted({'memories': done.removed})}"
        )
    if done.history is None:
        warn("the history of memories is not copied: only an admin of the target may write it; add --admin-dsn DSN")
    if not done.vectors_fit:
        warn("the other database holds vectors of another model: the texts wait there for new ones")
    for each in done.themes:
        if each.moved and each.target_rows:
            together = typed(f"hermes-pgvector themes merge {quote(each.theme)} {quote(each.moved)}")
            warn(f"{each.theme!r} was renamed or merged there, and holds rows again: to put them together: {together}")
    if done.since:
        again = "they come with the next copy" if switched else "run the same again, what is there is skipped"
        warn(f"written here meanwhile: {plural(done.since, 'row')}; {again}")


COPY = Command(
    'hermes-pgvector copy --to "host=db dbname=hermes_memory user=hermes"\n'
    'hermes-pgvector copy --to "host=db dbname=hermes_memory user=hermes" --switch\n'
    'hermes-pgvector copy --to "host=db dbname=hermes_memory user=hermes" --dry-run\n'
    "hermes-pgvector copy --from embedded\n"
    "hermes-pgvector copy --to embedded --switch",
    _copy,
    [
        argument(
            "--to DSN",
            f"the database to copy to, migrated, or: embedded; also in ${_ENV} (default with --from: the one in use)",
        ),
        argument("--from DSN", "the database to copy from, or: embedded (default: the one in use)", dest="source"),
        add_admin_dsn,
        add_themes,
        argument("--switch", "use the other database from now on, if everything arrived there"),
        argument("--dry-run", "only count what would be copied, and what would be removed there"),
    ],
)
