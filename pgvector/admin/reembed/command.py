"""The commands `backfill` and `reembed`."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...capture.document_embedding import DocumentEmbedder
from ...config.settings import Settings
from ...domain.commandline import typed
from ...domain.errors import ConfigurationError, InvalidArgument, WrongUsage
from ...domain.format import plural
from ...domain.measures import Latencies
from ...embed.embedder import Embedder
from ...embed.factory import embedder_for
from ...embed.model_folder import is_local
from ...host.session_context import environment
from ...runtime.parts import backend_of
from ...store.connection import DeadlineConnection
from ..common import new_vectors as store
from ..common.admin_login import agents_admin
from ..common.commands import (
    EXIT_FAILED,
    EXIT_OK,
    Command,
    add_admin_dsn,
    add_yes,
    argument,
    given_admin_dsn,
    printed,
)
from ..common.console import say
from ..common.database import settings_of
from ..common.embedded_server import borrowed_server
from ..common.given_dims import MAX_DIMS, dims_given
from ..common.hnsw import over_whole_vectors
from ..common.outcome import ADD_YES
from ..common.saving import after, set_settings
from ..common.stopped import said_if_stopped
from ..common.theme_indexes import to_have_again, with_indexes
from .reembedding import Reembedding, ReembedPlan, backfill, plan

_REQUEST_S = 120.0
_NOT_BEGUN = "the change of the model was only about to begin: the same command begins it, or goes on with it"
_STOPPED = (
    "the change of the model is not given up: the same command goes on with it; to give it up: hermes-pgvector reembed "
    "--abort --yes"
)
_SWITCHED = "the database holds the new vectors already; the same command says so in the settings of this home as well"


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate < 1e9:
        raise argparse.ArgumentTypeError("rows a second, more than 0")
    return rate


def _backfill(args: argparse.Namespace, home: Path) -> int:
    settings = settings_of(home)
    embedder = _embedder(settings, home)
    with borrowed_server(settings) as locate:
        backend = backend_of(settings, lambda: settings.dsn or locate(), connections=1, replica=False)
        try:
            backend.bring_up()
            documents = DocumentEmbedder(embedder, backend, Latencies(), chunk_tokens=settings.chunk_tokens)
            if not documents.is_there():
                raise ConfigurationError(_why_not(embedder))
            with said_if_stopped("what has its vector keeps it; run it again to go on"):
                done, left = backfill(backend, documents, rows_per_s=args.rate, cold=args.cold)
        finally:
            backend.close()
            if embedder is not None:
                embedder.close()
    why = _why_left(documents) if left else ""
    rest = f"{plural(left, 'row')} still without a vector: {why}" if left else "none waits"
    said = f"{plural(done, 'row')} embedded, {rest}" if done or left else "nothing to do: no row waits for a vector"
    printed(args, {"embedded": done, "pending": left, "reason": why}, lambda: say(said))
    return EXIT_FAILED if left and documents.fails else EXIT_OK


def _why_not(embedder: Embedder | None) -> str:
    """Return why no row can be embedded at all, and what to do."""
    if embedder is None:
        return "there is nothing to embed with: set embed_url and embed_model, or see hermes-pgvector doctor"
    return (
        "the stored vectors are of another model or length than those of the settings, so nothing was embedded; what "
        "to set: hermes-pgvector doctor; or change the vectors: hermes-pgvector reembed --yes"
    )


def _why_left(documents: DocumentEmbedder) -> str:
    """Return why some rows are still without a vector."""
    if documents.fails and documents.trouble.last is not None:
        return documents.trouble.last.text
    return "an agent is embedding them, or the model refused them a moment ago; run it again in some minutes"


def _reembed(args: argparse.Namespace, home: Path) -> int:
    settings = settings_of(home)
    admin_dsn = given_admin_dsn(args)
    if args.abort:
        return _abort(args, settings, admin_dsn)
    wanted, changes = _wanted(args, settings, home)
    embedder = _embedder(wanted, home)
    try:
        with agents_admin(settings, admin_dsn) as conninfo, store.admin_connection(conninfo) as conn:
            planned = plan(conn, embedder, wanted.chunk_tokens)
            goes_on = planned.needed or args.again
            lost = _LostIndexes.of(conn) if goes_on else _LostIndexes()
            if not args.yes:
                return _preview(args, planned, lost, goes_on=goes_on)
            worker = Reembedding(
                conn, embedder, chunk_tokens=wanted.chunk_tokens, rows_per_s=args.rate, again=args.again
            )
            with said_if_stopped(lambda: _came_to(worker, planned)):
                refused = worker.run() if goes_on else 0
    finally:
        embedder.close()
    if not args.no_config:
        with after(f"the database holds vectors of {embedder.model} now, {wanted.dims} dimensions"):
            set_settings(home, changes)
    told = {"model": embedder.model, "dims": wanted.dims, "refused": refused, "config_changed": not args.no_config}

    def report() -> None:
        _report(embedder.model, wanted.dims, refused, changes, noted=not args.no_config)
        lost.tell("went")

    return printed(args, {"done": True} | told | lost._asdict(), report)


def _preview(args: argparse.Namespace, planned: ReembedPlan, lost: _LostIndexes, *, goes_on: bool) -> int:
    def show() -> None:
        say(planned.render(again=args.again))
        lost.tell("go")
        if goes_on:
            say(ADD_YES)

    return printed(args, {"done": False} | dataclasses.asdict(planned) | lost._asdict(), show)


class _LostIndexes(NamedTuple):
    """Which indexes go with the old vectors and are not built again: themes with some, and those over whole vectors."""

    theme_indexes: Sequence[str] = ()
    full_indexes: Sequence[str] = ()

    @classmethod
    def of(cls, conn: DeadlineConnection) -> _LostIndexes:
        """Return those that exist, or that a change under way has dropped."""
        return cls(with_indexes(conn), over_whole_vectors(store.hnsw_before(conn)))

    def tell(self, verb: str) -> None:
        """Say what is lost, and how to have it again."""
        for theme in self.theme_indexes:
            say(f"note: the indexes of the theme {theme!r} {verb} with the old vectors; {typed(to_have_again(theme))}")
        if self.full_indexes:
            names, again = ", ".join(self.full_indexes), typed("hermes-pgvector index build --full")
            say(f"note: {names} {verb} with the old vectors, for indexes over signatures; to have them again: {again}")


def _came_to(worker: Reembedding, planned: ReembedPlan) -> str:
    """Return how far a worker came that is stopped, and how to go on."""
    if worker.switched:
        return _SWITCHED
    return _STOPPED if worker.begun or planned.under_way else _NOT_BEGUN


def _report(model: str, dims: int, refused: int, changes: dict[str, Any], *, noted: bool) -> None:
    say(f"the database holds vectors of {model} now, {dims} dimensions; restart the agents")
    if refused:
        verb = "was refused and is" if refused == 1 else "were refused and are"
        say(f"{plural(refused, 'row')} {verb} found by words only")
    settings_text = ", ".join(f"{key}: {value}" for key, value in changes.items())
    elsewhere = "config.yaml of this home says so; in every other profile and home with this database "
    say(f"{elsewhere if noted else ''}set {settings_text}")


def _wanted(args: argparse.Namespace, settings: Settings, home: Path) -> tuple[Settings, dict[str, Any]]:
    """Return the settings with the new model, and those of them to write to config.yaml."""
    changes = _model_wanted(args, settings)
    wanted = dataclasses.replace(settings, **changes)
    changes["dims"] = args.dims
    if args.dims is None:
        named = args.model or args.url or is_local(wanted.embed_url)
        changes["dims"] = dims_given(_patient(wanted), _api_key(wanted, home), home=home) if named else settings.dims
    if not 1 <= changes["dims"] <= MAX_DIMS:
        raise InvalidArgument(
            f"{changes['dims']} dimensions: an embedding may have 1 to {MAX_DIMS:,}; some models give fewer when "
            "asked: --dims N, see the setting embed_dimensions"
        )
    return dataclasses.replace(wanted, dims=changes["dims"]), changes


def _model_wanted(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    """Return the settings of the new model except `dims`. Raises WrongUsage if no model is named."""
    url = (args.url or settings.embed_url).strip()
    if not url:
        raise WrongUsage(
            "there is nothing to embed with: add --url URL or --url local:NAME; see also: hermes-pgvector model list"
        )
    if not is_local(url):
        return {"embed_url": url, "embed_model": args.model or settings.embed_model}
    if args.model:
        raise WrongUsage(
            f"--model is for endpoints, and recall uses {url} now: add --url URL, as http://127.0.0.1:11434; a model "
            "on this machine's disk is named by --url local:NAME"
        )
    return {"embed_url": url}


def _abort(args: argparse.Namespace, settings: Settings, admin_dsn: str) -> int:
    with agents_admin(settings, admin_dsn) as conninfo, store.admin_connection(conninfo) as conn:
        under_way = store.running(conn)
        done = args.yes and store.abort(conn)
    if under_way is None:
        said = "no change of the model is under way; whether an index is missing says hermes-pgvector doctor"
    elif done:
        said = f"the new vectors of {under_way.model} are dropped, the old ones stay"
    else:
        said = f"the new vectors of {under_way.model} would be dropped; {ADD_YES}"
    return printed(args, {"done": done, "under_way": under_way is not None}, lambda: say(said))


def _embedder(settings: Settings, home: Path) -> Any:
    return embedder_for(_patient(settings), _api_key(settings, home), home=home)


def _patient(settings: Settings) -> Settings:
    """Return the settings with a longer timeout: no agent waits, and full batches of long texts are slow to embed."""
    return dataclasses.replace(settings, embed_timeout_s=max(settings.embed_timeout_s, _REQUEST_S))


def _api_key(settings: Settings, home: Path) -> str:
    return environment(home).get(settings.embed_api_key_env, "")


BACKFILL = Command(
    "hermes-pgvector backfill\nhermes-pgvector backfill --rate 50\nhermes-pgvector backfill --cold",
    _backfill,
    [
        argument("--rate N", "at most N rows a second", type=_rate, default=0.0),
        argument("--cold", "instead those whose vector `compact` has dropped"),
    ],
)
REEMBED = Command(
    "hermes-pgvector reembed --url http://127.0.0.1:11434 --model bge-m3     # what it would take\n"
    "hermes-pgvector reembed --model bge-m3 --yes                            # by the same endpoint\n"
    "hermes-pgvector reembed --url local:bge-small-en-v1.5 --yes\n"
    "hermes-pgvector reembed --abort --yes",
    _reembed,
    [
        argument("--model NAME", "the new model, as the endpoint calls it (default: the setting `embed_model`)"),
        argument("--url URL", "its endpoint, or local:NAME for an installed model (default: the setting `embed_url`)"),
        argument("--dims N", "floats in its embeddings (default: as many as the model gives)", type=int),
        add_admin_dsn,
        argument("--rate N", "at most N rows a second by this worker", type=_rate, default=0.0),
        argument("--again", "also where the database has vectors of this model already"),
        argument("--abort", "drop the new vectors and keep the old ones"),
        argument("--no-config", "leave config.yaml as it is when all is done"),
        add_yes,
    ],
)
