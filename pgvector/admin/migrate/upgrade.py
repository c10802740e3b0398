"""The in-place upgrade from the other hermes-memory-pgvector: it is planned, run, then confirmed or undone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...capture.sanitize import session_name
from ...config.settings import Settings
from ...domain.errors import ConfigurationError
from ...domain.format import plural
from ...domain.theme import LAST_RESORT, Languages, Surface, ThemeRules, session_themes
from ...domain.types import EmbeddingSpace, Store
from ...embed.instructions import instructions_for
from ...embed.model_folder import is_local
from ...store.connection import DeadlineConnection
from ...store.pool import connect
from ..common import hnsw
from ..common.migrations import MigrationReport, migrate
from ..common.new_vectors import vacuum
from ..common.pooler import require_session
from ..common.progress import building, progress
from ..common.stopped import said_if_stopped
from ..common.upgrade_progress import NAMELESS, SCHEMA, UpgradeProgress, under_way
from . import upgrade_tables
from .upgrade_tables import ForeignTables, OldRow, RowDestination

CONFIRM = "hermes-pgvector migrate --admin-dsn DSN --confirm-upgrade"
UNDO = "hermes-pgvector migrate --admin-dsn DSN --undo-upgrade"
_CHAT_KEY = re.compile(r"agent:([^:]+):([^:]+):")
_MAIN = "main"  # the host's name for its default profile in the key of a chat
_THEMES_SHOWN = 20
Say = Callable[[str], None]


@dataclass(frozen=True)
class UpgradePlan:
    """What an upgrade does. `model` made the vectors, if that is known; `themes` maps the old names that change to new.

    `vectors_lost` says why the vectors are not kept; it is empty if they are kept or there are none.
    """

    memories: int
    turns: int
    vectors: int
    vectors_lost: str
    model: str
    dims: int
    bytes: int
    roles: tuple[str, ...]
    themes: dict[str, str]
    begun: bool

    def lines(self) -> list[str]:
        """Return the plan as lines of text."""
        said = [
            "an upgrade from the other hermes-memory-pgvector was begun here, and goes on: "
            if self.begun
            else "the tables here are of the other hermes-memory-pgvector: "
        ]
        said[0] += f"memories: {self.memories:,}, turns: {self.turns:,}"
        said.append(
            f"  its tables go to the schema {SCHEMA} ({self.bytes / 1e6:,.0f} MB), and stay until you confirm or undo"
        )
        said.append("  ours take their place; each row keeps its number, theme, times and metadata")
        if self.vectors_lost:
            said.append(f"  vectors are not kept: {self.vectors_lost}; agents embed the texts anew")
        elif self.vectors:
            of = f", taken for those of {self.model} (embed_model)" if self.model else ""
            said.append(f"  vectors are kept: {self.vectors:,}, of {self.dims} dimensions{of}")
        if self.roles:
            said.append(f"  roles that get the agents' rights: {', '.join(self.roles)}")
        for old, new in list(self.themes.items())[:_THEMES_SHOWN]:
            said.append(f"  theme {old!r} becomes {new!r}")
        if (more := len(self.themes) - _THEMES_SHOWN) > 0:
            said.append(f"  and {more:,} other themes, see --json")
        return said


@dataclass(frozen=True)
class Upgraded:
    """The result of an upgrade. `merged` memories repeated another one of their theme; `left_out` rows had no text."""

    plan: UpgradePlan
    merged: int
    left_out: int
    migration: MigrationReport

    def lines(self) -> list[str]:
        """Return what was done and the next steps, as lines of text."""
        done = ["upgraded"]
        if self.merged:
            done.append(f"merged, as they were there twice: {plural(self.merged, 'memory', 'memories')}")
        if self.left_out:
            done.append(f"left out, as they were blank: {plural(self.left_out, 'row')}")
        return [
            "; ".join(done),
            f"when all is well, drop the tables of before: {CONFIRM}",
            f"to have everything back as it was: {UNDO}",
        ]


def plan_upgrade(conn: DeadlineConnection, settings: Settings, *, dims: int, role: str) -> UpgradePlan | None:
    """Return what `run_upgrade` would do, or None if there is nothing to upgrade. Raises ConfigurationError."""
    begun = under_way(conn)
    if begun is not None and begun.finished_at is not None:
        return None
    found = upgrade_tables.look(conn)
    if found is None:
        return None
    dims = begun.dims if begun else dims
    destination_of = _destinations(settings)
    themes = {
        theme: new
        for theme, key in sorted(found.themes, key=str)
        if theme is not None and (new := destination_of("turns", OldRow(theme, key)).theme) != theme
    }
    space = _named_space(settings, dims)
    return UpgradePlan(
        memories=found.rows["memories"],
        turns=found.rows["turns"],
        vectors=found.vectors,
        vectors_lost=_why_not(found, settings, dims),
        model=space.model if space else "",
        dims=dims,
        bytes=found.bytes,
        roles=(role,) if role else found.writers,
        themes=themes,
        begun=begun is not None,
    )


def run_upgrade(admin_dsn: str, settings: Settings, *, dims: int, role: str, say: Say) -> Upgraded | None:
    """Upgrade the database, or resume an interrupted upgrade; return None if there is nothing to upgrade.

    Raises ConfigurationError, StoreUnavailable, DeadlineExceeded while agents hold the tables.
    """
    with connect(admin_dsn) as conn:
        require_session(conn, admin_dsn)
        with upgrade_tables.alone(conn):
            plan = plan_upgrade(conn, settings, dims=dims, role=role)
            if plan is None:
                return None
            for line in plan.lines():
                say(line)
            if not plan.begun:
                upgrade_tables.begin(conn, dims=plan.dims, keeps_vectors=bool(plan.vectors and not plan.vectors_lost))
            with said_if_stopped("the upgrade is begun and not undone: the same command goes on with it"):
                migration = _take_over(conn, admin_dsn, settings, plan)
            done = _begun(conn)
        with building() as tell:
            built = hnsw.build(conn, admin_dsn, tell)
        vacuum(conn)
    return Upgraded(plan, done.merged, done.left_out, replace(migration, built=tuple(built)))


def _take_over(conn: DeadlineConnection, admin_dsn: str, settings: Settings, plan: UpgradePlan) -> MigrationReport:
    """Create our tables unless they are there, and copy what is not copied yet."""
    migration = MigrationReport((), (), ())
    if (begun := _begun(conn)).opened_at is None:
        # Each role is granted its rights by a separate run; the first run also creates the tables.
        migration, *_ = [migrate(admin_dsn, dims=plan.dims, runtime_role=each) for each in plan.roles or ("",)]
        upgrade_tables.make_ready(conn, begun, _named_space(settings, plan.dims))
    destination_of = _destinations(settings)
    with progress("memories", plan.memories) as advance:
        upgrade_tables.copy_memories(conn, destination_of, advance)
    with progress("turns", plan.turns) as advance:
        upgrade_tables.copy_turns(conn, destination_of, advance)
    return migration


def confirm_upgrade(admin_dsn: str, *, really: bool) -> None:
    """Drop the old tables; unless `really`, only check that this is possible. Raises ConfigurationError."""
    with connect(admin_dsn) as conn, upgrade_tables.alone(conn):
        if _begun(conn).finished_at is None:
            raise ConfigurationError("the upgrade is not at its end; first go on with it: hermes-pgvector migrate")
        if really:
            upgrade_tables.confirm(conn)


def undo_upgrade(admin_dsn: str, *, really: bool, yes: bool) -> tuple[bool, dict[str, int]]:
    """Put the old tables back; return whether that was done, and what was written since the upgrade.

    Nothing is undone unless `really`. What was written since the upgrade is lost, so that case also needs `yes`.
    Raises ConfigurationError.
    """
    with connect(admin_dsn) as conn, upgrade_tables.alone(conn):
        since = upgrade_tables.written_since(conn)
        done = really and (yes or not any(since.values()))
        if done:
            upgrade_tables.undo(conn, since)
    return done, since


def as_json(report: MigrationReport, upgraded: Upgraded | None) -> dict[str, Any]:
    """Return everything that `migrate` did, as JSON."""
    known = {"done": True} | asdict(report) | {"upgrade": None}
    if upgraded is not None:
        done = {"merged": upgraded.merged, "left_out": upgraded.left_out}
        known["upgrade"] = {"done": True} | asdict(upgraded.plan) | done
    return known


def _begun(conn: DeadlineConnection) -> UpgradeProgress:
    begun = under_way(conn)
    if begun is None:
        raise ConfigurationError("no upgrade awaits confirmation here")
    return begun


def _named_space(settings: Settings, dims: int) -> EmbeddingSpace | None:
    """Return the old vectors' space by the settings: that program had endpoints only, set by the same two keys."""
    if not settings.embed_url.strip() or is_local(settings.embed_url):
        return None
    words = instructions_for(
        settings.embed_model, document=settings.embed_document_prefix, query=settings.embed_query_prefix
    )
    return EmbeddingSpace(settings.embed_model, dims, words.document, words.query)


def _why_not(found: ForeignTables, settings: Settings, dims: int) -> str:
    if not found.vectors:
        return ""
    if found.dims != dims:
        return f"they have {found.dims or 'several'} dimensions, and `dims` says {dims}"
    if is_local(settings.embed_url):
        return f"they are of an endpoint's model, and embed_url says {settings.embed_url}"
    return ""


def _destinations(settings: Settings) -> upgrade_tables.DestinationOf:
    """Return the function that maps an old row to the theme in which our provider looks for it."""
    # `allowed_themes` is left out: what an operator allows today does not decide where old rows belong.
    rules = ThemeRules.of(
        default=settings.default_theme,
        aliases=settings.theme_aliases,
        messaging=settings.messaging_theme,
        identity_key=settings.identity_key,
    )
    languages = Languages(settings.text_language, settings.text_languages)
    known: dict[tuple[Store, str | None, str | None], str] = {}

    def session(name: str | None) -> str:
        return session_name(name, rules.identity_key) if name else ""

    def destination_of(store: Store, row: OldRow) -> RowDestination:
        if (store, row.theme, row.key) not in known:
            where = session_themes(_surface(row.theme or LAST_RESORT, row.key or ""), rules)
            known[store, row.theme, row.key] = (where.memories if store == "memories" else where.turns).name
        theme = known[store, row.theme, row.key]
        return RowDestination(theme, languages.of(theme), session(row.session), session(row.parent) or None)

    return destination_of


def _surface(theme: str, key: str) -> Surface:
    """Return what the host reported about the session that this theme was made for."""
    for text in (key, theme):
        if (chat := _CHAT_KEY.match(text)) is not None:
            return Surface(text, chat[2], LAST_RESORT if chat[1] == _MAIN else chat[1])
    if theme == NAMELESS:
        return Surface(profile=LAST_RESORT, workspace=NAMELESS)
    return Surface(theme, "api_server")
