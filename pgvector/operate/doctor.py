"""The checklist an operator runs: one line a check, its cause and its fix."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ..domain.dsn import mask_dsn
from ..domain.errors import DimensionMismatch, EmbedderError, HermesPgvectorError, SchemaNotApplied
from ..domain.models import EmbeddingSpace
from ..domain.settings import Settings
from ..embed.base import space_of
from ..embed.factory import embedder_for
from ..embed.modeldir import is_local
from ..store import reembed, schema, vectorstate
from ..store.connection import DeadlineConnection
from ..store.pool import connect
from . import sharing
from .activate import is_active, is_enabled
from .spools import inspect_spools, short_id, spool_folder

State = Literal["ok", "note", "fail"]
_MARKS: dict[State, str] = {"ok": "ok  ", "note": "note", "fail": "FAIL"}
_MANY_WAITING = 1000  # a burst is gone in seconds; more than this says that something holds the drain up
Locate = Callable[[], str]


@dataclass(frozen=True)
class Check:
    """One line of the checklist. `fix` is a command or a sentence, empty when all is well."""

    name: str
    state: State
    said: str
    fix: str = ""


def examine(settings: Settings, home: Path, *, locate: Locate | None = None, api_key: str = "") -> list[Check]:
    """Run every check. `locate` gives the conninfo where no `dsn` is set, starting the embedded server."""
    checks = [*_environment(home)]
    checks += _store(settings, home, locate)
    checks += _embedding(settings, home, api_key)
    checks += _spool(home)
    return checks


def healthy(checks: list[Check]) -> bool:
    """True when no check failed."""
    return not any(check.state == "fail" for check in checks)


def render_text(checks: list[Check]) -> str:
    """The checklist for people."""
    lines = []
    for check in checks:
        lines.append(f"  {_MARKS[check.state]}  {check.name}: {check.said}")
        if check.fix:
            lines.append(f"        -> {check.fix}")
    return "\n".join(lines)


def as_json(checks: list[Check]) -> dict[str, Any]:
    """The checklist for machines."""
    return {"healthy": healthy(checks), "checks": [asdict(check) for check in checks]}


def _environment(home: Path) -> Iterator[Check]:
    yield Check("python", "ok", f"{sys.version_info.major}.{sys.version_info.minor} at {sys.executable}")
    try:
        yield Check("hermes-agent", "ok", importlib.metadata.version("hermes-agent"))
    except importlib.metadata.PackageNotFoundError:
        yield Check(
            "hermes-agent",
            "note",
            "not in this Python environment",
            "install this package into the environment that runs hermes",
        )
    plugin = home / "plugins" / "pgvector"
    if (plugin / "__init__.py").is_file():
        yield Check("plugin", "ok", f"found by hermes in {plugin}")
    else:
        yield Check("plugin", "fail", f"{plugin} is missing", f"hermes-pgvector install --hermes-home {home}")
    if is_active(home):
        yield Check("active", "ok", "memory.provider is pgvector")
        if not is_enabled(home):
            yield Check(
                "enabled",
                "note",
                "not loaded at start-up: of several first requests at once, some may run without memory",
                "hermes plugins enable pgvector",
            )
    else:
        yield Check("active", "fail", "memory.provider is not pgvector", "hermes config set memory.provider pgvector")


def _store(settings: Settings, home: Path, locate: Locate | None) -> Iterator[Check]:
    where = mask_dsn(settings.dsn) if settings.dsn else "embedded"
    try:
        conninfo = settings.dsn or (locate() if locate is not None else "")
        if not conninfo:
            yield Check("postgres", "note", "embedded, not looked at")
            return
        with connect(conninfo) as conn:
            conn.deadline = time.monotonic() + 15.0
            postgres, vector = schema.versions(conn)
            yield Check("postgres", "ok", f"{where}, Postgres {postgres}")
            yield from _schema(conn, settings, home, vector)
    except HermesPgvectorError as exc:
        yield Check("postgres", "fail", f"{where}: {exc}", "" if ";" in str(exc) else "see docs/troubleshooting.md")


def _schema(conn: DeadlineConnection, settings: Settings, home: Path, vector: str) -> Iterator[Check]:
    if not vector:
        yield Check("pgvector", "fail", "the extension is not installed in this database", schema.MIGRATE_COMMAND)
        return
    old = tuple(int(part) for part in vector.split(".")[:3] if part.isdigit()) < (0, 8, 4)
    yield Check(
        "pgvector",
        "note" if old else "ok",
        vector,
        "0.8.4 and newer vacuum HNSW indexes correctly: ALTER EXTENSION vector UPDATE" if old else "",
    )
    try:
        schema.ensure_schema(conn, dims=settings.dims)
    except DimensionMismatch:
        pass  # told with the model, below
    except HermesPgvectorError as exc:
        # Of the others the message itself says what to do, and migrating would not help.
        yield Check("schema", "fail", str(exc), schema.MIGRATE_COMMAND if isinstance(exc, SchemaNotApplied) else "")
        return
    yield Check("schema", "ok", f"{len(schema.migrations())} migrations applied")
    invalid = schema.invalid_indexes(conn)
    yield from _vectors(conn, settings, home, invalid)
    if schema.has_trigrams(conn):
        yield Check("pg_trgm", "ok", "a misspelt word finds what was meant")
    else:
        yield Check("pg_trgm", "ok", "not installed: a misspelt word finds nothing; CREATE EXTENSION pg_trgm adds it")
    for name in schema.changed_migrations(conn):
        yield Check("schema", "note", f"migration {name} was another text when it was applied")
    for name in invalid:
        yield Check("index", "fail", f"{name} is invalid", f"REINDEX INDEX CONCURRENTLY {name}")
    if missing := schema.missing_rights(conn):
        yield Check("rights", "fail", "this role lacks " + ", ".join(missing), schema.MIGRATE_COMMAND)
    elif excess := schema.excess_rights(conn):
        yield Check(
            "rights",
            "note",
            "this role " + ", ".join(excess),
            "use a role with fewer rights: hermes-pgvector migrate --admin-dsn DSN --runtime-role ROLE",
        )
    else:
        yield Check("rights", "ok", "reads and writes rows, nothing more")
    if said := sharing.shared_files(conn, home):
        yield Check("built-in memory", "note", said, sharing.REMEDY)


def _vectors(conn: DeadlineConnection, settings: Settings, home: Path, invalid: list[str]) -> Iterator[Check]:
    """Whose vectors the database holds, whether they are the settings' own, and what is still to come."""
    held = reembed.current(conn)
    wanted = _space(settings, home)
    said = f"of {held.model}, {held.dims} dimensions" if held.model else f"none yet, room for {held.dims} dimensions"
    under_way = reembed.running(conn)
    if wanted is not None and (wanted.dims != held.dims or (held.model and not wanted.comparable(held))):
        named = f"{wanted.model}, {wanted.dims} dimensions"
        if wanted.document_prefix != held.document_prefix and (wanted.model, wanted.dims) == (held.model, held.dims):
            named += f" and {wanted.document_prefix!r} before a text instead of {held.document_prefix!r}"
        back = f"embed_model: {held.model}, " if held.model and not is_local(settings.embed_url) else ""
        yield Check(
            "vectors",
            "fail",
            f"{said}; the settings name {named}: recall goes by words only",
            f"hermes-pgvector reembed --yes, or set back {back}dims: {held.dims}",
        )
    elif wanted is None and settings.dims != held.dims:
        yield Check(
            "vectors",
            "fail",
            f"{said}; the setting `dims` says {settings.dims}",
            f"set plugins.pgvector.dims to {held.dims}",
        )
    else:
        yield Check("vectors", "ok", said)
    if under_way is not None:
        yield Check(
            "vectors",
            "note",
            f"a change to {under_way.model or 'another length'}, {under_way.dims} dimensions, is under way: about "
            f"{vectorstate.share_done(conn):.0%} of the rows are embedded anew",
            "the same command goes on with it; to give it up: hermes-pgvector reembed --abort --yes",
        )
    elif not invalid and (lacking := vectorstate.without_graph(conn)):
        yield Check(
            "index",
            "note",
            f"no whole HNSW index on {' and '.join(lacking)}: over all themes of millions of rows recall is slow",
            "hermes-pgvector reembed --abort --yes builds it",
        )
    if wanted is not None and (pending := vectorstate.pending(conn)):
        yield Check(
            "pending",
            "note",
            f"{pending:,} rows wait for their vector",
            "agents do that by themselves; to have it now: hermes-pgvector backfill",
        )


def _space(settings: Settings, home: Path) -> EmbeddingSpace | None:
    """What the settings would store; None without a model, or where that is told elsewhere as what is wrong."""
    try:
        embedder = embedder_for(settings, "", home=home)
        if embedder is None:
            return None
        try:
            return space_of(embedder)
        finally:
            embedder.close()
    except HermesPgvectorError:
        return None


def _embedding(settings: Settings, home: Path, api_key: str) -> Iterator[Check]:
    """By what recall goes, why, and what to run for more."""
    if not settings.embed_url:
        yield Check(
            "embedding",
            "note",
            "none: recall goes by words, not by meaning, since embed_url names neither an endpoint nor a model",
            "hermes-pgvector model choose; or set plugins.pgvector.embed_url and embed_model to an endpoint of yours",
        )
        return
    local = is_local(settings.embed_url)
    try:
        embedder = embedder_for(settings, api_key, home=home)
        assert embedder is not None
        started = time.monotonic()
        try:
            embedder.embed_query("Is anybody there?", timeout_s=settings.embed_timeout_s)
        finally:
            embedder.close()
        took_ms = (time.monotonic() - started) * 1000
        which = f"local model {embedder.model} in this process," if local else f"{embedder.model} answers with"
        yield Check("embedding", "ok", f"{which} {settings.dims} dimensions, in {took_ms:.0f} ms")
    except (EmbedderError, HermesPgvectorError) as exc:
        check = "hermes-pgvector model verify" if local else "check embed_url, embed_model and dims"
        yield Check("embedding", "fail", str(exc), f"{check}; recall goes by words meanwhile")


def _spool(home: Path) -> Iterator[Check]:
    folder = spool_folder(home)
    writable = os.access(next(path for path in (folder, *folder.parents) if path.exists()), os.W_OK)
    if not writable:
        yield Check(
            "spool",
            "fail",
            f"{folder} cannot be written: writes are kept in memory only",
            f"make {home} writable for this user",
        )
        return
    views = inspect_spools(home)
    for view in views:
        if view.problem:
            yield Check("spool", "fail", view.problem, f"its writes are kept in {view.path}")
        for item in view.aside:
            yield Check(
                "spool",
                "fail",
                f"Postgres refused write {short_id(item)} ({item.operation.kind}, theme {item.operation.theme}): "
                f"{item.error}",
                "hermes-pgvector spool list, then spool retry or spool drop",
            )
    orphaned = sum(view.waiting for view in views if not view.living)
    if orphaned:
        yield Check("spool", "note", f"{orphaned} writes of stopped processes wait", "they follow when an agent starts")
    stuck = [view for view in views if view.living and view.waiting > _MANY_WAITING]
    for view in stuck:
        said = str(view.report.get("last_error") or "the drain does not keep up")
        yield Check(
            "spool", "note", f"{view.waiting} writes wait in process {view.pid}: {said}", "hermes-pgvector status"
        )
    if not orphaned and not stuck:
        yield Check("spool", "ok", f"{folder}, {sum(view.waiting for view in views)} writes on their way")
