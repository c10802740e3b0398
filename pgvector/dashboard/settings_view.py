"""The settings that matter, tried before they are saved."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..admin.common.saving import overruled, save
from ..config.settings import Field, Settings
from ..config.sources import CONFIG_NAME, DOTENV_NAME, form_path, read_dotenv, read_form, read_section
from ..domain.commandline import typed
from ..domain.errors import InvalidArgument
from ..domain.format import plural
from ..host.session_context import environment, load_settings
from ..host.setup import API_KEY as API_KEY_FIELD
from .page_route import PageRoute
from .params import Params
from .served_homes import ServedHome
from .settings_trial import API_KEY, OFFERED, SettingsTrial, is_hidden, tried

_one_at_a_time = threading.Lock()  # for two forms that are saved at once


@dataclass(frozen=True)
class _Sources:
    """The contents of all places that may hold a home's settings, each read once."""

    home: Path
    dotenv: Mapping[str, str]
    environ: Mapping[str, str]
    form: Mapping[str, Any]
    section: Mapping[str, Any]

    @classmethod
    def of(cls, home: Path) -> _Sources:
        """Read all of them."""
        section, _ = read_section(home)
        known = section if isinstance(section, Mapping) else {}
        return cls(home, read_dotenv(home), environment(home), read_form(home), known)

    def of_setting(self, field: Field) -> str:
        """Return where the value in effect comes from; empty for the default."""
        if field.env in self.dotenv:
            return DOTENV_NAME
        if self.environ.get(field.env, "").strip():
            return f"the variable {field.env}"
        if self.form.get(field.key) not in (None, ""):
            return str(form_path(self.home))
        return CONFIG_NAME if self.section.get(field.key) is not None else ""


def settings(served: ServedHome, params: Params) -> Mapping[str, Any]:
    """Return the settings that a form offers, without what is secret."""
    now, warnings = load_settings(None, served.home)
    return {
        "fields": list(_fields(served, now)),
        "file": str(served.home / CONFIG_NAME),
        "mode": "server" if now.dsn else "embedded",
        "notes": [typed(each) for each in warnings],
    }


def _fields(served: ServedHome, now: Settings) -> Iterator[Mapping[str, Any]]:
    sources = _Sources.of(served.home)
    for key, field in OFFERED.items():
        value = getattr(now, key)
        hidden = is_hidden(field, value)
        yield {
            "key": key,
            "label": field.label,
            # For a secret, an empty field means that it is kept.
            "help": field.doc.partition("; empty ")[0] if hidden else field.doc,
            "type": "secret" if hidden else _type(field),
            "value": None if hidden else value,
            "default": None if field.secret else field.default,
            "choices": list(field.choices),
            "source": sources.of_setting(field),
            "set": bool(value) if hidden else value != field.default,
        }
        if key == "embed_model":
            yield _key_field(sources, now)


def _key_field(sources: _Sources, now: Settings) -> Mapping[str, Any]:
    name = now.embed_api_key_env
    given = bool(sources.environ.get(name, ""))
    from_file = name in sources.dotenv
    return {
        "key": API_KEY,
        "label": API_KEY_FIELD["label"],
        "help": API_KEY_FIELD["description"],
        "type": "secret",
        "value": None,
        "default": None,
        "choices": [],
        "source": (DOTENV_NAME if from_file else f"the variable {name}") if given else "",
        "set": given,
    }


def _type(field: Field) -> str:
    if field.choices:
        return "choice"
    if field.word:
        return "text"
    return {bool: "bool", int: "number", float: "number"}.get(field.kind, "text")


def try_settings(served: ServedHome, params: Params) -> dict[str, Any]:
    """Try the settings, and save nothing."""
    trial = _tried(served.home, served.settings, params)
    return _told(trial, f"{_counted(trial)} can be saved" if trial.changed else "nothing would be changed")


def save_settings(served: ServedHome, params: Params) -> Mapping[str, Any]:
    """Try the settings, and save all of them if all can be used."""
    if params.flag("dry_run"):
        return try_settings(served, params) | {"saved": [], "restart": False}
    with _one_at_a_time:
        current = load_settings(None, served.home).settings  # another form may have been saved while this one waited
        trial = _tried(served.home, current, params)
        if trial.problems or not trial.changed:
            return _told(trial, "nothing was changed") | {"saved": [], "restart": False}
        save(served.home, trial.changes(served.home, current))
    now = load_settings(None, served.home).settings
    values = {key: getattr(now, key) for key in OFFERED.keys() & trial.changed}
    trial.now = {key: value for key, value in values.items() if not is_hidden(OFFERED[key], value)}
    trial.notes += [
        f"{name} in the environment overrules what was saved; unset it" for name in overruled(trial.wanted, now)
    ]
    return _told(trial, f"{_counted(trial)} saved") | {"saved": sorted(trial.changed), "restart": True}


def _tried(home: Path, current: Settings, params: Params) -> SettingsTrial:
    shown = params.values.get("shown") or {}
    if not isinstance(shown, dict):
        raise InvalidArgument("shown must have the values that were shown, by setting")
    return tried(home, current, _changes_wanted(params), shown)


def _changes_wanted(params: Params) -> Mapping[str, Any]:
    changes_wanted = params.values.get("changes")
    if not isinstance(changes_wanted, dict) or not changes_wanted:
        raise InvalidArgument('changes must have settings, as {"prefetch_limit": 5}')
    return changes_wanted


def _counted(trial: SettingsTrial) -> str:
    return plural(len(trial.changed), "setting")


def _told(trial: SettingsTrial, says: str) -> dict[str, Any]:
    ok = not trial.problems
    return {
        "ok": ok,
        "says": says if ok else f"{plural(len(trial.problems), 'problem')}; nothing was saved",
        "problems": [{name: typed(text) for name, text in asdict(each).items()} for each in trial.problems],
        "notes": [typed(each) for each in trial.notes],
        "now": trial.now,
    }


ROUTES = (
    PageRoute("/settings", settings),
    PageRoute("/settings/test", try_settings, changes=True),
    PageRoute("/settings", save_settings, changes=True),
)
