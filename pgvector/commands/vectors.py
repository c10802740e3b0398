"""backfill and reembed."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .base import EXIT_OK, Command, add_json, add_yes, print_json, settings_of

if TYPE_CHECKING:
    from ..domain.settings import Settings


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate < 1e9:
        raise argparse.ArgumentTypeError("rows a second, more than 0")
    return rate


def _backfill_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--rate", type=_rate, metavar="N", default=0.0, help="at most N rows a second")
    add_json(command)


def _backfill(args: argparse.Namespace, home: Path) -> int:
    from ..capture.embedding import DocumentEmbedder
    from ..capture.pending import PendingRows
    from ..domain.latency import Latencies
    from ..operate.reembed import backfill
    from ..runtime.embedded import borrowed_server
    from ..store.backend import Backend

    settings = settings_of(home)
    embedder = _embedder(settings, home)
    with borrowed_server(settings) as locate:
        backend = Backend(lambda: settings.dsn or locate(), dims=settings.dims, pool_max_size=1)
        try:
            backend.bring_up()
            documents = DocumentEmbedder(embedder, backend, Latencies(), chunk_tokens=settings.chunk_tokens)
            done = backfill(backend, PendingRows(backend, documents), rows_per_s=args.rate)
            counts = backend.counts()
        finally:
            backend.close()
            if embedder is not None:
                embedder.close()
    left = counts["pending_memories"] + counts["pending_turns"]
    if args.json:
        print_json({"embedded": done, "pending": left})
    else:
        print(f"{done} rows embedded, {left} still wait" if left else f"{done} rows embedded, none waits")
    return EXIT_OK


def _reembed_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", metavar="NAME", help="the new model, as the endpoint calls it")
    command.add_argument("--url", metavar="URL", help="its endpoint (default: the setting `embed_url`)")
    command.add_argument("--dims", type=int, metavar="N", help="floats in its embeddings (default: the setting `dims`)")
    command.add_argument(
        "--admin-dsn", metavar="DSN", help="how to log in as an admin; may also stand in $HERMES_PGVECTOR_ADMIN_DSN"
    )
    command.add_argument("--rate", type=_rate, metavar="N", default=0.0, help="at most N rows a second by this worker")
    command.add_argument("--abort", action="store_true", help="drop the new vectors and keep the old ones")
    command.add_argument("--no-config", action="store_true", help="leave config.yaml as it is when all is done")
    add_yes(command)
    add_json(command)


def _reembed(args: argparse.Namespace, home: Path) -> int:
    import dataclasses

    from ..domain.errors import InvalidArgument
    from ..operate.reembed import Reembedding, plan
    from ..runtime.embedded import admin_conninfo
    from ..store import reembed as store

    settings = settings_of(home)
    admin_dsn = args.admin_dsn or os.environ.get("HERMES_PGVECTOR_ADMIN_DSN", "")
    if args.abort:
        return _abort(args, settings, admin_dsn)
    if not args.model:
        raise InvalidArgument("name the new model: hermes-pgvector reembed --model NAME")
    changes: dict[str, Any] = {"embed_model": args.model}
    if args.url:
        changes["embed_url"] = args.url
    if args.dims is not None:
        changes["dims"] = args.dims
    wanted = dataclasses.replace(settings, **changes)
    embedder = _embedder(wanted, home)
    if embedder is None:
        raise InvalidArgument("there is no endpoint to embed with: add --url URL, or set embed_url")
    with admin_conninfo(settings, admin_dsn) as conninfo, store.admin_connection(conninfo) as conn:
        planned = plan(conn, embedder, wanted.chunk_tokens)
        if not args.yes:
            if args.json:
                print_json(dataclasses.asdict(planned) | {"done_now": False})
            else:
                print(planned.render() + "\nnothing was changed: add --yes")
            return EXIT_OK
        worker = Reembedding(conn, embedder, chunk_tokens=wanted.chunk_tokens, rows_per_s=args.rate)
        refused = worker.run()
    embedder.close()
    noted = not args.no_config and _note(home, changes)
    if args.json:
        print_json({"model": args.model, "dims": wanted.dims, "refused": refused, "config_changed": noted})
        return EXIT_OK
    print(f"the database holds vectors of {args.model} now, {wanted.dims} dimensions; restart the agents")
    if refused:
        print(f"{refused} rows were refused and are found by words only")
    settings_text = ", ".join(f"{key}: {value}" for key, value in (changes | {"dims": wanted.dims}).items())
    print(f"config.yaml of this home says so; on other hosts set {settings_text}" if noted else f"set {settings_text}")
    return EXIT_OK


def _abort(args: argparse.Namespace, settings: Settings, admin_dsn: str) -> int:
    from ..runtime.embedded import admin_conninfo
    from ..store import reembed as store

    with admin_conninfo(settings, admin_dsn) as conninfo, store.admin_connection(conninfo) as conn:
        under_way = store.running(conn)
        done = bool(under_way and args.yes and store.abort(conn))
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
    from ..embed.factory import embedder_for
    from ..host.context import environment

    return embedder_for(settings, environment(home).get(settings.embed_api_key_env, ""), home=home)


def _note(home: Path, changes: dict[str, Any]) -> bool:
    from ..operate.configfile import set_values

    set_values(home, {("plugins", "pgvector", key): value for key, value in changes.items()})
    return True


BACKFILL = Command(
    "backfill",
    "embed the rows that wait for a vector, rather than leave it to the agents",
    "hermes-pgvector backfill\nhermes-pgvector backfill --rate 50",
    _backfill,
    _backfill_arguments,
)
REEMBED = Command(
    "reembed",
    "change the embedding model while the agents go on; may be stopped, run again, and run on several hosts at once",
    "hermes-pgvector reembed --model bge-m3 --dims 1024\n"
    "hermes-pgvector reembed --model bge-m3 --dims 1024 --yes\nhermes-pgvector reembed --abort --yes",
    _reembed,
    _reembed_arguments,
)
