"""backfill and reembed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.commands import (
    EXIT_OK,
    Command,
    add_admin_dsn,
    add_json,
    add_yes,
    given_admin_dsn,
    print_json,
    settings_of,
)

if TYPE_CHECKING:
    from ...config.settings import Settings
    from .reembedding import ReembedPlan

_MAX_DIMS = 2000  # of a vector in an HNSW index
_REQUEST_S = 120.0


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate < 1e9:
        raise argparse.ArgumentTypeError("rows a second, more than 0")
    return rate


def _backfill_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--rate", type=_rate, metavar="N", default=0.0, help="at most N rows a second")
    command.add_argument("--cold", action="store_true", help="instead those whose vector `compact` has dropped")
    add_json(command)


def _backfill(args: argparse.Namespace, home: Path) -> int:
    from ...capture.document_embedding import DocumentEmbedder, PendingRows
    from ...domain.measures import Latencies
    from ...store.backend import Backend
    from ..common.embedded_server import borrowed_server
    from .reembedding import backfill, cold_turns

    settings = settings_of(home)
    embedder = _embedder(settings, home)
    with borrowed_server(settings) as locate:
        backend = Backend(lambda: settings.dsn or locate(), dims=settings.dims, pool_max_size=1)
        try:
            backend.bring_up()
            documents = DocumentEmbedder(embedder, backend, Latencies(), chunk_tokens=settings.chunk_tokens)
            rows = PendingRows(backend, documents, cold=args.cold)
            done = backfill(backend, rows, rows_per_s=args.rate, cold=args.cold)
            counts = backend.counts()
            cold = cold_turns(backend) if args.cold else 0
        finally:
            backend.close()
            if embedder is not None:
                embedder.close()
    left = cold if args.cold else counts["pending_memories"] + counts["pending_turns"]
    if args.json:
        print_json({"embedded": done, "pending": left})
    else:
        print(f"{done} rows embedded, {left} still wait" if left else f"{done} rows embedded, none waits")
    return EXIT_OK


def _reembed_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--model", metavar="NAME", help="the new model, as the endpoint calls it (default: the setting `embed_model`)"
    )
    command.add_argument(
        "--url",
        metavar="URL",
        help="its endpoint, or local:NAME for an installed model (default: the setting `embed_url`)",
    )
    command.add_argument(
        "--dims", type=int, metavar="N", help="floats in its embeddings (default: as many as the model gives)"
    )
    add_admin_dsn(command)
    command.add_argument("--rate", type=_rate, metavar="N", default=0.0, help="at most N rows a second by this worker")
    command.add_argument(
        "--again", action="store_true", help="also where the database has vectors of this model already"
    )
    command.add_argument("--abort", action="store_true", help="drop the new vectors and keep the old ones")
    command.add_argument("--no-config", action="store_true", help="leave config.yaml as it is when all is done")
    add_yes(command)
    add_json(command)


def _reembed(args: argparse.Namespace, home: Path) -> int:
    from ..common import new_vectors as store
    from ..common.admin_login import admin_conninfo
    from .reembedding import Reembedding, plan

    settings = settings_of(home)
    admin_dsn = given_admin_dsn(args)
    if args.abort:
        return _abort(args, settings, admin_dsn)
    wanted, changes = _wanted(args, settings, home)
    embedder = _embedder(wanted, home)
    try:
        with admin_conninfo(settings, admin_dsn) as conninfo, store.admin_connection(conninfo) as conn:
            planned = plan(conn, embedder, wanted.chunk_tokens)
            if not args.yes:
                return _show(args, planned)
            worker = Reembedding(
                conn, embedder, chunk_tokens=wanted.chunk_tokens, rows_per_s=args.rate, again=args.again
            )
            refused = worker.run() if planned.needed or args.again else 0
    finally:
        embedder.close()
    if not args.no_config:
        _note(home, changes)
    if args.json:
        done = {"model": embedder.model, "dims": wanted.dims, "refused": refused}
        print_json(done | {"config_changed": not args.no_config})
    else:
        _report(embedder.model, wanted.dims, refused, changes, noted=not args.no_config)
    return EXIT_OK


def _show(args: argparse.Namespace, planned: ReembedPlan) -> int:
    import dataclasses

    if args.json:
        print_json(dataclasses.asdict(planned) | {"done_now": False})
        return EXIT_OK
    print(planned.render())
    if planned.needed or args.again:
        print("nothing was changed: add --yes")
    return EXIT_OK


def _report(model: str, dims: int, refused: int, changes: dict[str, Any], *, noted: bool) -> None:
    print(f"the database holds vectors of {model} now, {dims} dimensions; restart the agents")
    if refused:
        print(f"{refused} rows were refused and are found by words only")
    settings_text = ", ".join(f"{key}: {value}" for key, value in changes.items())
    print(f"config.yaml of this home says so; on other hosts set {settings_text}" if noted else f"set {settings_text}")


def _wanted(args: argparse.Namespace, settings: Settings, home: Path) -> tuple[Settings, dict[str, Any]]:
    """Return the settings with the new model in them, and what of them goes into config.yaml."""
    import dataclasses

    from ...domain.errors import InvalidArgument
    from ...embed.factory import dims_given
    from ...embed.model_folder import is_local

    changes: dict[str, Any] = {"embed_url": (args.url or settings.embed_url).strip()}
    if not changes["embed_url"]:
        raise InvalidArgument(
            "there is nothing to embed with: add --url URL or --url local:NAME; see also: hermes-pgvector model list"
        )
    if not is_local(changes["embed_url"]):
        changes["embed_model"] = args.model or settings.embed_model
    elif args.model:
        raise InvalidArgument(
            f"--model is for endpoints, and recall goes by {changes['embed_url']} now: add --url URL, as "
            "http://127.0.0.1:11434; a model on this machine's disk is named by --url local:NAME"
        )
    wanted = dataclasses.replace(settings, **changes)
    changes["dims"] = args.dims
    if args.dims is None and not (args.model or args.url or is_local(wanted.embed_url)):
        changes["dims"] = settings.dims
    elif args.dims is None:
        changes["dims"] = dims_given(_patient(wanted), _api_key(wanted, home), home=home)
    if not 1 <= changes["dims"] <= _MAX_DIMS:
        raise InvalidArgument(
            f"{changes['dims']} dimensions: an embedding may have 1 to {_MAX_DIMS:,}; some models give fewer when "
            "asked: --dims N, see the setting embed_dimensions"
        )
    return dataclasses.replace(wanted, dims=changes["dims"]), changes


def _abort(args: argparse.Namespace, settings: Settings, admin_dsn: str) -> int:
    from ..common import new_vectors as store
    from ..common.admin_login import admin_conninfo

    with admin_conninfo(settings, admin_dsn) as conninfo, store.admin_connection(conninfo) as conn:
        under_way = store.running(conn)
        done = args.yes and store.abort(conn)
    if args.json:
        print_json({"under_way": under_way is not None, "dropped": done})
    elif under_way is None:
        print("no change of the model is under way")
    elif done:
        print(f"the new vectors of {under_way.model} are dropped, the old ones stay")
    else:
        print(f"the new vectors of {under_way.model} would be dropped; nothing was changed: add --yes")
    return EXIT_OK


def _embedder(settings: Settings, home: Path) -> Any:
    from ...embed.factory import embedder_for

    return embedder_for(_patient(settings), _api_key(settings, home), home=home)


def _patient(settings: Settings) -> Settings:
    """Nobody waits for these embeddings as agents do, and full batches of long texts take a small machine a while."""
    import dataclasses

    return dataclasses.replace(settings, embed_timeout_s=max(settings.embed_timeout_s, _REQUEST_S))


def _api_key(settings: Settings, home: Path) -> str:
    from ...host.session_context import environment

    return environment(home).get(settings.embed_api_key_env, "")


def _note(home: Path, changes: dict[str, Any]) -> None:
    from ..common.yaml_file import set_values

    set_values(home, {("plugins", "pgvector", key): value for key, value in changes.items()})


BACKFILL = Command(
    "backfill",
    "embed the rows that wait for a vector, rather than leave it to the agents",
    "hermes-pgvector backfill\nhermes-pgvector backfill --rate 50\nhermes-pgvector backfill --cold",
    _backfill,
    _backfill_arguments,
)
REEMBED = Command(
    "reembed",
    "change the embedding model while the agents go on; may be stopped, run again, and run on several hosts at once",
    "hermes-pgvector reembed --url http://127.0.0.1:11434 --model bge-m3     # what it would take\n"
    "hermes-pgvector reembed --model bge-m3 --yes                            # by the same endpoint\n"
    "hermes-pgvector reembed --url local:bge-small-en-v1.5 --yes\n"
    "hermes-pgvector reembed --abort --yes",
    _reembed,
    _reembed_arguments,
)
