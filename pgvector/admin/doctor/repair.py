"""What `doctor --fix` does: only what loses nothing, costs nothing and overrides nobody's choice.

It does not replace another provider with us, which somebody chose; embed pending rows, which may take hours and cost
money; retry or drop rejected writes; or do anything that needs an admin of a shared server, unless one is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from ...config.settings import Settings
from ...domain.errors import HermesPgvectorError
from ...domain.format import plural
from ...store.connection import role_of
from ...store.pool import connect
from ..common.activation import activate, enable, find_hermes
from ..common.installation import install_plugin
from ..common.migrations import migrate
from ..common.pooler import require_session
from ..common.progress import building
from . import server_health
from .check import Check

Admin = Callable[[], AbstractContextManager[str]]
_BY_ADMIN = ("migrate", "extension", "index", "sequences")


@dataclass(frozen=True, slots=True)
class RepairContext:
    """The parts that a repair uses. `admin` yields an admin's conninfo; it is None if none is available.

    `deliver` sends the writes of stopped processes to Postgres and returns how many are left, and why.
    """

    settings: Settings
    home: Path
    admin: Admin | None
    deliver: Callable[[], tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that was repaired, or was not, and why."""

    name: str
    was: str
    done: bool
    said: str

    def render(self) -> str:
        """Return a line for people."""
        return f"  {'fixed' if self.done else 'NOT fixed'}  {self.name}: {self.said}"


def repair_all(checks: Iterable[Check], context: RepairContext) -> Iterator[Repair]:
    """Repair what the checks found, one after the other; report what cannot be repaired, and continue."""
    seen = set()
    for check in checks:
        if not check.repair or check.repair in seen:
            continue
        seen.add(check.repair)
        what, _, name = check.repair.partition(":")
        if what in _BY_ADMIN and context.admin is None:
            said = "this needs an admin of the server: add --admin-dsn DSN, or set HERMES_PGVECTOR_ADMIN_DSN"
            yield Repair(check.name, check.said, False, said)
            continue
        try:
            done, said = _REPAIRS[what](context, name)
        except HermesPgvectorError as exc:
            done, said = False, str(exc)
        yield Repair(check.name, check.said, done, said)


def _install(context: RepairContext, _: str) -> tuple[bool, str]:
    report = install_plugin(context.home)
    return True, f"plugin {report.action}: {report.path}"


def _activate(context: RepairContext, _: str) -> tuple[bool, str]:
    hermes = find_hermes()
    how = activate(context.home, hermes)
    enable(context.home, hermes)
    return True, f"memory.provider is pgvector: {how}"


def _enable(context: RepairContext, _: str) -> tuple[bool, str]:
    if enable(context.home, find_hermes()):
        return True, "pgvector stands in plugins.enabled"
    return False, "config.yaml could not be changed; run: hermes plugins enable pgvector"


def _migrate(context: RepairContext, _: str) -> tuple[bool, str]:
    assert context.admin is not None
    role = _role_of_agents(context.settings)
    with context.admin() as conninfo, building() as tell:
        report = migrate(conninfo, dims=context.settings.dims, runtime_role=role, tell=tell)
    return True, f"{len(report.applied)} migrations applied; the role {role} has its rights"


def _role_of_agents(settings: Settings) -> str:
    """Return the role that agents log in as, which `dsn` may leave to a variable, a service or the account's name."""
    if not settings.dsn:
        return "hermes"
    with connect(settings.dsn) as conn:
        return role_of(conn)


def _extension(context: RepairContext, _: str) -> tuple[bool, str]:
    assert context.admin is not None
    with context.admin() as conninfo, connect(conninfo) as conn:
        newer = server_health.newer_extension(conn)
        server_health.update_extension(conn)
    return True, f"pgvector is {newer} now"


def _index(context: RepairContext, name: str) -> tuple[bool, str]:
    assert context.admin is not None
    with context.admin() as conninfo, connect(conninfo) as conn:
        require_session(conn, conninfo)
        server_health.rebuild_index(conn, name)
    return True, f"{name} is whole"


def _sequences(context: RepairContext, _: str) -> tuple[bool, str]:
    assert context.admin is not None
    with context.admin() as conninfo, connect(conninfo) as conn:
        server_health.advance_sequences(conn)
    return True, "ids go on after the highest one of each table; what waited follows by itself"


def _deliver(context: RepairContext, _: str) -> tuple[bool, str]:
    left, why = context.deliver()
    if left:
        return False, f"left of stopped processes: {plural(left, 'write')}; {why or 'see: hermes-pgvector status'}"
    return True, "the writes of stopped processes are in Postgres"


_REPAIRS: dict[str, Callable[[RepairContext, str], tuple[bool, str]]] = {
    "install": _install,
    "activate": _activate,
    "enable": _enable,
    "migrate": _migrate,
    "extension": _extension,
    "index": _index,
    "sequences": _sequences,
    "deliver": _deliver,
}
