"""Saving settings where the host keeps them: secrets in .env, all others in config.yaml; all of them or none."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...config.loading import Rejected, coerce
from ...config.settings import FIELDS, KNOWN_ENV, Field, Settings
from ...config.sources import (
    CONFIG_NAME,
    DOTENV_NAME,
    PROVIDER,
    form_path,
    is_active,
    read_dotenv,
    read_form,
    read_section,
)
from ...domain.errors import ConfigurationError
from ...domain.redaction import mask_dsn
from ...host.session_context import came_from_dotenv, environment, load_settings, process_home
from ...server.home_record import has_data, last_server, note_embedded
from ...server.layout import root_of
from .conninfo import has_secret
from .console import warn
from .dotenv_file import set_dotenv
from .file_replacing import replace_file, restored_on_failure
from .repeat import held_back

API_KEY_ENV = "HERMES_PGVECTOR_EMBED_API_KEY"
assert API_KEY_ENV in KNOWN_ENV
_SECTION = ("plugins", "pgvector")
_BY_KEY = {each.key: each for each in FIELDS}


@dataclass(frozen=True)
class Changes:
    """Settings to write into config.yaml, and variables to write into .env (None: to remove)."""

    settings: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.settings or self.variables)

    def lines(self) -> list[str]:
        """Return the changes for people, without secrets."""
        shown = [f"config.yaml  plugins.pgvector.{key}: {_shown(value)}" for key, value in self.settings.items()]
        return shown + [
            f".env         {name} {'removed' if value is None else 'set'}" for name, value in self.variables.items()
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the changes for machines, without secrets."""
        return {
            "config.yaml": {
                key: mask_dsn(value) if isinstance(value, str) else value for key, value in self.settings.items()
            },
            ".env": {name: "removed" if value is None else "set" for name, value in self.variables.items()},
        }


def changes_to(
    home: Path,
    current: Settings,
    wanted: Settings,
    *,
    explicit: frozenset[str] = frozenset(),
    api_key: str | None = None,
) -> Changes:
    """Return what has to be written for `wanted` to take effect; a setting with the right value stays where it is.

    Settings in `explicit` are written even if they have the default value, unless a file sets them already. `api_key`
    None leaves the endpoint's key alone. Raises ConfigurationError for a text that agents would not take.
    """
    changes = Changes()
    in_files, in_env = settings_in_files(home), read_dotenv(home)
    for each in FIELDS:
        value, said = getattr(wanted, each.key), each.key in in_files or each.env in in_env
        if value == getattr(current, each.key) and (said or each.key not in explicit):
            continue
        if isinstance(value, str):
            _check_text(each, value)
        if each.env in in_env:
            changes.variables[each.env] = None
        _add_change(changes, each, value, in_files.get(each.key), explicit=each.key in explicit and not said)
    if api_key is not None:
        _add_key(changes, wanted, api_key)
    return changes


def _check_text(each: Field, value: str) -> None:
    try:
        coerce(each, value)
    except Rejected as why:
        raise ConfigurationError(f"{each.key}: expected {each.expected}, got {why}") from None


def _add_key(changes: Changes, wanted: Settings, api_key: str) -> None:
    changes.variables[API_KEY_ENV] = api_key or None
    if wanted.embed_api_key_env != API_KEY_ENV:
        changes.settings["embed_api_key_env"] = API_KEY_ENV


def _add_change(changes: Changes, each: Field, value: Any, said: object, *, explicit: bool) -> None:
    """Note where to write one setting; `said` is its present value in config.yaml or the form."""
    if each.key == "dsn" and value and has_secret(value):
        changes.variables[each.env] = value
        if said:
            changes.settings["dsn"] = ""
    elif explicit or said or value or value != each.default:
        changes.settings[each.key] = list(value) if isinstance(value, tuple) else value


def set_settings(home: Path, values: Mapping[str, Any]) -> bool:
    """Make settings take effect, whatever a file says at present; return whether that changes anything.

    Settings that the environment overrules are reported on stderr. Raises ConfigurationError, with the files unchanged.
    """
    current = load_settings(None, home).settings
    wanted = replace(current, **values)
    changes = changes_to(home, current, wanted, explicit=frozenset(values))
    save(home, changes)
    warn_overruled(home, wanted)
    return bool(changes)


@contextmanager
def after(done: str) -> Iterator[None]:
    """Have a ConfigurationError of the block, which writes settings, begin with what is done already."""
    try:
        yield
    except ConfigurationError as exc:
        raise ConfigurationError(f"{done}, but {exc}") from exc


def warn_overruled(home: Path, wanted: Settings) -> None:
    """Warn about variables of the environment that overrule the settings just written."""
    for name in overruled(wanted, load_settings(None, home).settings):
        warn(f"${name} in the environment overrules what was written now: change it there")


def require_editable(home: Path, changes: Changes) -> None:
    """Raise ConfigurationError, as `save` and `activate` would, if config.yaml cannot be changed in this way."""
    from .yaml_file import set_values

    wanted: dict[tuple[str, ...], object] = {(*_SECTION, key): value for key, value in changes.settings.items()}
    if not is_active(home):
        wanted["memory", "provider"] = PROVIDER
    if wanted:
        set_values(home, wanted, really=False)


def save(home: Path, changes: Changes) -> None:
    """Write the changes, all or none. Raises ConfigurationError, with the files unchanged."""
    # The YAML editor takes a while to load, and most commands that know the settings write none.
    from .yaml_file import set_values

    given = {name: value for name, value in changes.variables.items() if value is not None}
    removed = {name: None for name in changes.variables if name not in given}
    with (
        held_back(),
        restored_on_failure(home / DOTENV_NAME, home / CONFIG_NAME, form_path(home)),
        _environment_restored(changes.variables),
        _still_in_use(home, changes),
    ):
        if given:
            set_dotenv(home, given)
        if changes.settings:
            set_values(home, {(*_SECTION, key): value for key, value in changes.settings.items()})
        # After that, as they overrule config.yaml: with neither, whoever starts now would use another database.
        if removed:
            set_dotenv(home, removed)
        _forget_form(home, frozenset(changes.settings))
        _follow_environment(home, changes.variables)


@contextmanager
def _still_in_use(home: Path, changes: Changes) -> Iterator[None]:
    """Raise ConfigurationError if the settings could be used, and cannot be any more after the block.

    As where a variable with nearly the name of `dsn` turns memory off once `dsn` itself is taken out. Otherwise record
    where the memory is from now on.
    """
    in_use = False
    with suppress(ConfigurationError):
        load_settings(None, home)
        in_use = True
    yield
    try:
        now = load_settings(None, home).settings
    except ConfigurationError as exc:
        if in_use:
            raise ConfigurationError(
                f"the settings of {home} were left as they are, since memory would be off with the new ones: {exc}"
            ) from exc
        return
    _note_place(home, changes, now)


@contextmanager
def _environment_restored(names: Iterable[str]) -> Iterator[None]:
    """Restore variables of this process' environment that the block has changed if it raises."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    except BaseException:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        raise


def _note_place(home: Path, changes: Changes, now: Settings) -> None:
    """Record that the embedded Postgres has the memory if the changes said so: nobody is asked where `dsn` has gone."""
    if "dsn" not in changes.settings and _BY_KEY["dsn"].env not in changes.variables:
        return
    # One that is not there yet may not be this home's: which is decided by what the home has used so far.
    if last_server(home) and not now.dsn and has_data(root_of(home)):
        note_embedded(home)


def _follow_environment(home: Path, variables: Mapping[str, str | None]) -> None:
    """Give programs that this process starts the new values, if the host had loaded the old ones from .env."""
    if home.resolve() != process_home().resolve():
        return
    for name, value in variables.items():
        if not came_from_dotenv(name, os.environ.get(name, "")):
            continue
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def _forget_form(home: Path, keys: frozenset[str]) -> None:
    """Remove settings from the file of the desktop's form, so that their values in config.yaml count.

    Raises ConfigurationError.
    """
    known = read_form(home)
    left = {key: value for key, value in known.items() if key not in keys}
    try:
        if known and not left:
            form_path(home).unlink(missing_ok=True)
        elif left != known:
            replace_file(form_path(home), (json.dumps(left, indent=2) + "\n").encode())
    except OSError as error:
        raise ConfigurationError(
            f"{form_path(home)}, what the desktop's form saved, overrules config.yaml, and cannot be changed "
            f"({error.strerror or error}); delete it"
        ) from error


def overruled(wanted: Settings, now: Settings) -> list[str]:
    """Return the variables of the environment that overrule the settings just written."""
    return [each.env for each in FIELDS if getattr(wanted, each.key) != getattr(now, each.key)]


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a form's settings converted to their types. Raises ValueError that says what a value must be."""
    known: dict[str, Any] = {}
    for key, raw in values.items():
        each = _BY_KEY.get(key)
        if each is None or raw in (None, ""):
            continue
        try:
            known[key] = coerce(each, raw)
        except Rejected as why:
            raise ValueError(f"{each.label or key}: expected {each.expected}, got {why}") from None
    return known


def _shown(value: object) -> str:
    if isinstance(value, str):
        return mask_dsn(value) if value else '""'
    return str(value).lower() if isinstance(value, bool) else str(value)


def settings_in_files(home: Path) -> dict[str, Any]:
    """Return the unparsed values in config.yaml and in the file of the desktop's form, which take precedence."""
    section, _ = read_section(home)
    return {**(section if isinstance(section, Mapping) else {}), **read_form(home)}


def given_settings(home: Path) -> dict[str, Any]:
    """Return the settings that somebody has set, in a file or the environment, with their unparsed values."""
    environ = environment(home)
    given = {str(key): value for key, value in settings_in_files(home).items() if value is not None}
    return given | {field.key: environ[field.env] for field in FIELDS if environ.get(field.env, "").strip()}
