"""The model of the database's vectors, and the vectors that are still missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...config.settings import Settings
from ...domain.format import plural
from ...domain.types import EmbeddingSpace, same_model
from ...embed.model_folder import is_local, is_model_name, models_folder
from ...store.connection import DeadlineConnection
from ...store.vectors import recorded_space
from ..common import codes, holdings, new_vectors, words
from . import server_health
from .check import Check, fail, note, ok


def check_vectors(conn: DeadlineConnection, settings: Settings, home: Path, invalid: list[str]) -> Iterator[Check]:
    """Yield which model the vectors are from, whether it is the settings' own, and how many rows lack a vector."""
    wanted = new_vectors.own_space(settings, home)
    yield _held(recorded_space(conn), wanted, settings, home)
    if (under_way := new_vectors.running(conn)) is not None:
        yield note(
            "vectors",
            f"a change to {under_way.model or 'another length'}, {under_way.dims} dimensions, is under way: about "
            f"{server_health.share_done(conn):.0%} of the rows are embedded anew",
            "the same command goes on with it; to give it up: hermes-pgvector reembed --abort --yes",
        )
    elif not invalid and (lacking := server_health.without_graph(conn)):
        yield note(
            "index",
            f"no whole HNSW index on {' and '.join(lacking)}: over all themes of millions of rows recall is slow",
            "hermes-pgvector index build",
        )
    migrate = "hermes-pgvector migrate" + (" --admin-dsn DSN" if settings.dsn else "")
    if lacking := codes.lacking_rows(conn):
        yield note(
            "index",
            f"rows of {' and '.join(lacking)} were stored by an older version and have no codes yet: recall by meaning "
            "is slower",
            migrate,
            "migrate",
        )
    if not words.are_read(conn):
        yield note(
            "index",
            "rows that an older version stored are not found by Latin words between Chinese, Japanese, Korean or Thai "
            "characters yet",
            migrate,
            "migrate",
        )
    if wanted is not None:
        yield from _pending(conn)


def _held(held: EmbeddingSpace, wanted: EmbeddingSpace | None, settings: Settings, home: Path) -> Check:
    found = f"of {held.model}, {held.dims} dimensions" if held.model else f"of no model yet, {held.dims} dimensions"
    if wanted is None and settings.dims != held.dims:
        return fail(
            "vectors", f"{found}; the setting `dims` says {settings.dims}", f"set plugins.pgvector.dims to {held.dims}"
        )
    if wanted is None or (wanted.dims == held.dims and (not held.model or wanted.comparable(held))):
        return ok("vectors", found)
    named = f"{wanted.model}, {wanted.dims} dimensions"
    if wanted.dims == held.dims and same_model(wanted.model, held.model):  # so the prefix is another one
        named += f" and {wanted.document_prefix!r} before a text instead of {held.document_prefix!r}"
    former = _former(held, wanted, settings, home)
    remedy = f"hermes-pgvector reembed --yes, or set back {former}"
    if settings.dsn:  # the vectors may be those of other machines, which would be left without any
        everybody = "hermes-pgvector reembed --yes --admin-dsn DSN"
        remedy = f"set {former}; or change the vectors, for all who use this server: {everybody}"
    return fail("vectors", f"{found}; the settings name {named}: recall uses words only", remedy)


def _pending(conn: DeadlineConnection) -> Iterator[Check]:
    waiting, more = holdings.pending(conn)
    if waiting:
        yield note(
            "pending",
            f"without a vector: {'more than ' if more else ''}{plural(waiting, 'row')}",
            "agents do that by themselves; to have it now: hermes-pgvector backfill",
        )


def _former(held: EmbeddingSpace, wanted: EmbeddingSpace, settings: Settings, home: Path) -> str:
    """Return the settings that would fit the vectors in the database."""
    parts = []
    if held.model and not same_model(held.model, wanted.model):
        if is_model_name(held.model) and (models_folder(home) / held.model).is_dir():
            parts.append(f"embed_url: local:{held.model}")
        elif is_local(settings.embed_url):
            model = "" if settings.embed_model == held.model else f", embed_model: {held.model}"
            parts.append(f"embed_url to an endpoint that has {held.model}{model}")
        else:
            parts.append(f"embed_model: {held.model}")
    if held.dims != settings.dims:
        parts.append(f"dims: {held.dims}")
    return ", ".join(parts) or f"embed_document_prefix: {held.document_prefix!r}"
