"""The first question of the setup wizard: where memory is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...domain.errors import ConfigurationError, HermesPgvectorError, StoreMisconfigured
from ...domain.redaction import mask_dsn
from ...store.connection import check_conninfo, place_of
from ..common.admin_login import require_same
from ..common.conninfo import as_admin, user_of, with_password
from ..common.database import naming
from ..common.embedded_server import embedded_server, existing_database, has_cluster
from ..common.profiles_left import profiles_left
from .appraisal import Appraisal, Tables, appraise
from .prompts import Interview
from .trial import Room

_TABLES: dict[Tables, str] = {
    "none": "tables are still to be made",
    "earlier": "tables are of an earlier version and still to be upgraded",
    "whole": "tables are there",
}
_LACKING: dict[Tables, str] = {
    "none": "the memory tables are missing there",
    "earlier": "the memory tables there are of an earlier version",
}


@dataclass(frozen=True)
class DatabaseChoice:
    """A database that was tried. `found` is None for an embedded one that does not exist yet.

    An admin prepares it with `admin_dsn`, at the end, or `later`.
    """

    dsn: str
    found: Appraisal | None
    admin_dsn: str = ""
    later: bool = False

    @property
    def needs_admin(self) -> bool:
        """Return whether an admin must prepare the database before agents can use it."""
        return bool(self.dsn and self.found and (not self.found.migrated or self.found.missing_rights))

    @property
    def room(self) -> Room:
        """Return which vectors the database can take."""
        if self.found is None or self.found.space is None:
            return Room()
        return Room(self.found.space, can_resize=self.found.empty and not self.dsn)

    def migrate_command(self, dims: int = 0) -> str:
        """Return what an admin runs; `dims` is the vector length of tables that do not exist yet, 0 if undecided."""
        assert self.found is not None
        admin = as_admin(self.dsn, self.found.database)
        held = self.found.space.dims if self.found.space else dims
        length = "" if self.found.migrated else f" --dims {held or 'N'}"
        return f'hermes-pgvector migrate --admin-dsn "{admin}" --runtime-role {self.found.role}{length}'

    def describe(self) -> str:
        """Return a line that describes the database."""
        if self.found is None:
            return "embedded Postgres, made at the end"
        where = mask_dsn(self.dsn) if self.dsn else "embedded Postgres"
        space = self.found.space
        holds = f", vectors of {space.dims} dimensions" + (f" by {space.model}" if space.model else "") if space else ""
        tables = _TABLES[self.found.tables]
        return f"{where}: Postgres {self.found.postgres}, pgvector {self.found.pgvector}, {tables}{holds}"


class DatabaseStep(Interview):
    """Asks for a database, or takes the one that the options name, and tries it. Adds to `notes`."""

    def take(self, again: bool) -> DatabaseChoice:
        """Return the database that the options or an answer name. Raises HermesPgvectorError if it cannot be used."""
        dsn = None if again else self.options.dsn
        if dsn is None and self.options.attended:
            dsn = self._ask_for_database()
        database = self._tried(self.current.dsn if dsn is None else dsn)
        self.say(f"  {database.describe()}")
        if database.found and database.dsn and database.found.excess_rights:
            self.notes.append(
                f"the role {database.found.role} {', '.join(database.found.excess_rights)}: agents need less than that"
            )
        self._tell_what_stays_behind(database.dsn)
        return self._with_admin(database) if database.needs_admin else database

    def _tell_what_stays_behind(self, dsn: str) -> None:
        """Note how to copy the memory of the database in use so far, if another one replaces it."""
        before, source = "the embedded Postgres", "embedded"
        if self.current.dsn:
            if dsn and place_of(dsn) == place_of(self.current.dsn):
                return
            before, source = mask_dsn(self.current.dsn), "OLD_DSN"
        elif not dsn or not has_cluster(self.current):
            return
        self.notes.append(
            f"memory in {before} stays there; once this is saved, bring it along: hermes-pgvector copy --from {source}"
        )
        if left := profiles_left(self.home, self.current, replace(self.current, dsn=dsn)):
            self.notes.append(left)

    def _ask_for_database(self) -> str:
        options = {
            "embedded": "Embedded Postgres: starts by itself, shared by all agents and profiles of this home",
            "server": "A Postgres server of yours, with pgvector",
        }
        chosen = self.ask.choice("Where should memory be kept?", options, "server" if self.current.dsn else "embedded")
        if chosen == "embedded":
            return ""
        self.say("  A password is better left out of it: it is asked for next, unseen.")
        dsn = self.ask.line(
            "DSN, as postgresql://hermes@db.example/hermes_memory",
            self.current.dsn,
            shown=mask_dsn(self.current.dsn),
        )
        if not dsn:
            raise ConfigurationError("a server needs a DSN")
        return dsn

    def _tried(self, dsn: str) -> DatabaseChoice:
        settings = replace(self.current, dsn=dsn)
        if dsn:
            check_conninfo(dsn)
        else:
            embedded_server(settings).check()
        with existing_database(settings) as existing:
            conninfo = existing()
            if not conninfo:
                return DatabaseChoice("", None)
            try:
                return DatabaseChoice(dsn, appraise(conninfo))
            except StoreMisconfigured as exc:
                if not self.options.attended or "password" not in str(exc):
                    raise
                self.say(f"  {exc}")
        with_it = with_password(dsn, self.ask.secret(f"Password of {user_of(dsn) or 'the role'}"))
        return DatabaseChoice(with_it, appraise(with_it))

    def _with_admin(self, database: DatabaseChoice) -> DatabaseChoice:
        """Return the choice with an admin's login that was tried, or without one if that is left for later."""
        assert database.found is not None
        lacking = ", ".join(database.found.missing_rights)
        why = f"the role {database.found.role} lacks {lacking}" if lacking else _LACKING[database.found.tables]
        command = database.migrate_command()
        login = self.options.admin_dsn
        if not login and not self.options.attended:
            raise StoreMisconfigured(f"{why}; an admin runs: {command}\nor give --admin-dsn DSN, and it is done here")
        while not login or (seen := self._as_admin(login, database.dsn)) is None:
            self.say(f"  {why}. An admin of the database runs:\n    {command}")
            login = self.ask.line("Or the DSN of an admin, to do it at the end of this (empty: not here)")
            if not login:
                if not self.ask.agrees("Go on, and let the admin do it later?", default=False):
                    raise StoreMisconfigured(why)
                return replace(database, later=True)
        found = replace(database.found, space=seen.space, empty=seen.empty)
        return replace(database, found=found, admin_dsn=login)

    def _as_admin(self, login: str, dsn: str) -> Appraisal | None:
        """Return the database as an admin sees it; if this is no admin's login to it, print why and return None."""
        try:
            require_same(replace(self.current, dsn=dsn), login)
            with naming("--admin-dsn"):
                found = appraise(login)
            if found.may_migrate:
                return found
            raise StoreMisconfigured(f"the role {found.role} cannot make the extension and the tables there")
        except HermesPgvectorError as exc:
            if not self.options.attended:
                raise
            self.say(f"  that does not work: {exc}")
            return None
