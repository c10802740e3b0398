"""The server: its version, its connection, the rights of this role, and whether the tables are complete."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ...capture.mirror import Mirror
from ...config.settings import Settings
from ...domain.dates import days_after, in_zone
from ...domain.errors import DimensionMismatch, HermesPgvectorError, SchemaNotApplied, UpgradeNeeded
from ...domain.files import how_to_let_read, memory_file_paths, read_memory_file
from ...domain.format import plural
from ...domain.redaction import mask_dsn
from ...domain.types import MEMORY_FILES
from ...host.session_context import Policy
from ...store import schema
from ...store.connection import WRITABLE, DeadlineConnection, role_of, translated
from ...store.memory_files import WHY
from ...store.pool import backend_pid, connect, is_pooled
from ..common import pooler, schema_checks
from ..common.embedded_server import account_notice
from ..common.holdings import held_removals
from ..common.migrations import changed_migrations
from ..common.retention_report import described, empty_themes, retention_state
from ..common.row_security import missing_theme, own_themes
from ..common.schema_checks import CREATE_DATABASE, OLDEST_PGVECTOR, OLDEST_POSTGRES
from ..common.theme_names import own_theme
from ..common.upgrade_progress import SCHEMA, UpgradeProgress, under_way
from . import server_health
from .check import Check, DoctorContext, fail, note, ok
from .check_sharing import check_sharing
from .check_tables import check_tables, migrating
from .check_vectors import check_vectors

_DEADLINE_S = 15.0
_WHAT_THEN = "agents keep what is written on their disk meanwhile; try again once that is mended"
_DECIDE = "put the file back; or hermes-pgvector removals list, then removals confirm ID... or removals dismiss ID..."
_MENDED_PGVECTOR = (0, 8, 4)
# Rows carry the clock of the host that wrote them, and of two near-equal statements the newer one wins.
_CLOCK_NOTE_S, _CLOCK_FAIL_S = 2.0, 60.0
_UTF8 = f"make one: {CREATE_DATABASE}; then name it in `dsn`"
_LOCALES = {
    "beyond ASCII": "this database's locale knows no capital letters beyond ASCII: a Cyrillic or Greek word, for one, "
    "is found only as it was written, in capitals or not",
    "I": "this database's locale makes a capital I a dotless one, as Turkish does: a word such as INDEX, or Info at "
    "the beginning of a sentence, is found only as it was written, in capitals or not",
}
_GRANT = "hermes-pgvector tenants grant ROLE THEME, as an admin"
_FEWER_RIGHTS = (
    "let agents log in as a role of their own, made by CREATE ROLE, with rights by: hermes-pgvector migrate "
    "--admin-dsn DSN --runtime-role ROLE; then name that role in `dsn`"
)


def check_database(context: DoctorContext) -> Iterator[Check]:
    """Yield everything that one connection can tell; a single failure if it cannot be opened."""
    settings = context.settings
    where = mask_dsn(settings.dsn) if settings.dsn else "embedded"
    try:
        conninfo = settings.dsn or (context.locate() if context.locate is not None else "")
        if not conninfo:
            yield note("postgres", "embedded, not looked at")
            return
        with connect(conninfo) as conn, translated():
            conn.deadline = time.monotonic() + _DEADLINE_S
            yield from _server(conn, context, where)
            if notice := account_notice(settings):
                yield ok("account", notice)
            if settings.dsn:
                yield _pooler(conn, conninfo, settings)
            yield from _tables(conn, context)
    except HermesPgvectorError as exc:
        yield fail("postgres", f"{where}: {exc}", "" if ";" in str(exc) else _WHAT_THEN)


def _server(conn: DeadlineConnection, context: DoctorContext, where: str) -> Iterator[Check]:
    postgres, _ = schema_checks.versions(conn)
    seen = server_health.look_at(conn, context.now())
    said = f"{where}, Postgres {postgres}, answers in {seen.answered_in_s * 1000:.0f} ms"
    if int(postgres.split(".")[0].split()[0]) < OLDEST_POSTGRES:
        yield fail("postgres", said, f"Postgres {OLDEST_POSTGRES} or newer is needed: upgrade the server")
    elif seen.read_only:
        yield fail("postgres", f"{said}; it takes no writes", WRITABLE)
    else:
        yield ok("postgres", said)
    apart_s = abs(seen.clock_ahead_s)
    if apart_s < _CLOCK_NOTE_S:
        yield ok("clock", "the same here and on the server")
        return
    order = "behind" if seen.clock_ahead_s > 0 else "ahead of"
    yield Check(
        "clock",
        "fail" if apart_s >= _CLOCK_FAIL_S else "note",
        f"this host is {apart_s:,.0f} s {order} the server: rows of several hosts get the wrong order in time",
        "set both by NTP, for instance: timedatectl set-ntp true",
    )


def _pooler(conn: DeadlineConnection, conninfo: str, settings: Settings) -> Check:
    pooled = is_pooled(conn)
    if pooled:
        with conn.transaction():  # a pooler in statement mode rejects transactions, which agents need
            backend_pid(conn)
    lends = pooled and pooler.shares_sessions(conn, conninfo)
    if lends and settings.pooler == "none":
        return fail(
            "pooler",
            "a pooler in transaction mode, and the setting `pooler` says none: prepared statements get lost",
            "set plugins.pgvector.pooler to transaction, or leave it out",
        )
    if settings.pooler == "transaction" and not pooled:
        return note(
            "pooler",
            "none is to be seen, and the setting `pooler` says transaction",
            "leave plugins.pgvector.pooler out: it finds out, and statements are prepared again",
        )
    if lends:
        return ok("pooler", "one in transaction mode: nothing is kept from one transaction to the next")
    return ok("pooler", "one in session mode" if pooled else "none, a connection of our own")


def _tables(conn: DeadlineConnection, context: DoctorContext) -> Iterator[Check]:
    if (encoding := conn.info.parameter_status("server_encoding")) != "UTF8":
        yield fail("postgres", f"this database has the encoding {encoding}, and UTF8 is needed", _UTF8)
        return
    _, vector = schema_checks.versions(conn)
    if not vector:
        how = migrating(conn, context.settings)
        other = f"; {schema.if_elsewhere(conn)}" if context.settings.dsn else ""
        yield fail("pgvector", f"the extension is not installed in this database{other}", how, "migrate")
        return
    yield _extension(conn, vector)
    themes = _themes(conn, own_theme(Policy.of(context.settings).rules, context.home))
    if themes.state == "fail":
        yield themes
        return
    if unusable := _unusable_schema(conn, context.settings):
        yield unusable
        return
    yield from _migrations(conn)
    invalid = schema_checks.invalid_indexes(conn)
    yield from check_vectors(conn, context.settings, context.home, invalid)
    yield _trigrams(conn)
    if kept := server_health.kept_capitals(conn):
        yield note(
            "locale",
            _LOCALES[kept],
            "make a database with another one, as CREATE DATABASE ... LOCALE 'C.UTF-8' TEMPLATE template0, and: "
            "hermes-pgvector copy --to DSN",
        )
    yield from check_tables(conn, context.settings, invalid)
    yield _rights(conn)
    yield themes
    yield _retention(conn, context.settings)
    yield from _removals(conn, context)
    yield from check_sharing(conn, context)


def _unusable_schema(conn: DeadlineConnection, settings: Settings) -> Check | None:
    """Return why agents cannot use these tables; None if they can, apart from the vectors."""
    try:
        schema.ensure_schema(conn, dims=settings.dims)
    except DimensionMismatch:
        return None  # reported with the model
    except SchemaNotApplied as exc:
        # Only an operator may begin to convert another program's tables.
        repair = "" if isinstance(exc, UpgradeNeeded) else "migrate"
        command = migrating(conn, settings)
        # The fix says how.
        said = str(exc).removesuffix(f"; to upgrade them with all rows, run: {schema.MIGRATE_COMMAND}")
        return fail("schema", said, command, repair)
    except HermesPgvectorError as exc:
        return fail("schema", str(exc))  # the message says what to do, and migrating would not help
    return None


def _migrations(conn: DeadlineConnection) -> Iterator[Check]:
    count = len(schema.shipped_migrations())
    if newer := schema.applied_versions(conn).difference(schema.shipped_migrations()):
        yield note(
            "schema",
            f"migration {max(newer):03} here is of a newer version of this program than this command",
            "upgrade this installation too; until then its agents read and write, without what is new",
        )
    else:
        yield ok("schema", f"{count} {'migration' if count == 1 else 'migrations'} applied")
    if (upgraded := under_way(conn)) is not None:
        yield _upgrade(upgraded)
    for name in changed_migrations(conn):
        yield note(
            "schema",
            f"migration {name} was another text when it was applied",
            "nothing as long as no check fails; tables as this version makes them: hermes-pgvector copy --to DSN",
        )


def _trigrams(conn: DeadlineConnection) -> Check:
    if schema_checks.has_trigrams(conn):
        return ok("pg_trgm", "a misspelt word finds what was meant")
    return ok("pg_trgm", "not installed: a misspelt word finds nothing; CREATE EXTENSION pg_trgm adds it")


def _extension(conn: DeadlineConnection, vector: str) -> Check:
    version = tuple(int(part) for part in vector.split(".")[:3] if part.isdigit())
    newer = server_health.newer_extension(conn)
    update = "ALTER EXTENSION vector UPDATE"
    how = update if newer else f"install a newer pgvector on the server, then {update}"
    repair = "extension" if newer else ""
    if version < OLDEST_PGVECTOR:
        return fail("pgvector", f"{vector}; 0.8 or newer is needed", how, repair)
    if version < _MENDED_PGVECTOR:
        return note("pgvector", vector, f"0.8.4 and newer vacuum HNSW indexes correctly: {how}", repair)
    return ok("pgvector", vector)


def _upgrade(progress: UpgradeProgress) -> Check:
    """Return a check for an upgrade from another program's tables that somebody has to complete."""
    if progress.finished_at is None:
        return fail(
            "upgrade",
            f"begun on {progress.began_at:%Y-%m-%d}, and turns of before are still missing",
            "while nobody is at it, go on with it: hermes-pgvector migrate --admin-dsn DSN",
        )
    return note(
        "upgrade",
        f"of {progress.finished_at:%Y-%m-%d}, awaits confirmation: the tables of before stay in {SCHEMA}",
        "hermes-pgvector migrate --confirm-upgrade drops them, --undo-upgrade puts them back (with --admin-dsn DSN)",
    )


def _rights(conn: DeadlineConnection) -> Check:
    if missing := schema_checks.missing_rights(conn):
        command = schema.migrate_command(role_of(conn))
        return fail("rights", "this role lacks " + ", ".join(missing), command, "migrate")
    if excess := schema_checks.excess_rights(conn):
        return note("rights", "this role " + ", ".join(excess), _FEWER_RIGHTS)
    return ok("rights", "reads and writes rows, nothing more")


def _themes(conn: DeadlineConnection, own: str) -> Check:
    """Return which themes row-level security allows this role; `own` is that of the home's sessions."""
    themes = own_themes(conn)
    name = "row security"
    if themes is None:
        return ok(name, "off: the statements alone keep themes apart")
    ways = server_health.ways_round(conn)
    round_it = "who may create objects in the place of ours can get around it"
    bar = "; ".join(each.statement for each in ways) + ", as an admin"
    if any(each.anybody for each in ways):
        return fail(name, f"on, but {round_it}", bar)
    missing = missing_theme(themes, own)
    if not themes:
        return fail(name, f"on, and {missing}", _GRANT)
    has = "on, and this role has " + ("every theme" if themes == ["*"] else plural(len(themes), "theme"))
    if ways:
        return note(name, f"{has}; {round_it}", bar)
    return note(name, f"on, and {missing}", _GRANT) if missing else ok(name, has)


def _retention(conn: DeadlineConnection, settings: Settings) -> Check:
    """Return whether a policy deletes old turns, and whether it names themes without turns."""
    state = retention_state(conn, settings)
    if unknown := empty_themes(conn, settings):
        return note(
            "retention",
            f"the setting names {', '.join(map(repr, unknown[:5]))}, where there are no turns; {described(state)}",
            "compare with: hermes-pgvector themes list",
        )
    return ok("retention", described(state))


def _removals(conn: DeadlineConnection, context: DoctorContext) -> Iterator[Check]:
    """Yield a check for each file whose removals wait, and for each memory file of this home that cannot be read."""
    mirror = Mirror(context.home)
    for path in memory_file_paths(context.home).values():
        try:
            read_memory_file(path)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as exc:
            said = f"{path} cannot be read: {exc.strerror or exc}"
            yield fail("memory files", said, how_to_let_read(exc))
    lost = held_removals(conn)
    for each in lost:
        own = each.origin == mirror.origin
        name = MEMORY_FILES[each.target] + ("" if own else " of another home")
        until = in_zone(days_after(each.held_at, context.settings.removal_hold_days), None)
        what = "1 memory it held stays" if each.count == 1 else f"{each.count:,} memories it held stay"
        yield Check(
            "memory files",
            "fail" if own else "note",
            f"{name} {WHY.get(each.held_why, 'lost entries')}: {what}, and from {until:%Y-%m-%d %H:%M} on for good",
            _DECIDE,
        )
    if not lost:
        yield ok("memory files", "no removal waits for a decision")
