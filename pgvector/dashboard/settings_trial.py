"""The trial of wanted settings, as setup tries them: settings that would not work are not saved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..admin.common.saving import API_KEY_ENV, Changes, changes_to
from ..admin.setup.prompts import SetupOptions, Terminal
from ..admin.setup.trial import try_embedding
from ..admin.setup.wizard_database import DatabaseChoice, DatabaseStep
from ..config.loading import Rejected, coerce
from ..config.settings import FIELDS, Field, Settings
from ..config.sources import read_dotenv
from ..domain.errors import HermesPgvectorError, InvalidArgument
from ..domain.redaction import masked
from ..domain.text import clean
from ..embed.model_folder import is_local
from ..host.session_context import environment

API_KEY = "embed_api_key"  # no setting: the variable that `embed_api_key_env` names
OFFERED = {each.key: each for each in FIELDS if each.label}
_ABOUT_MODEL = frozenset({"embed_url", "embed_model", API_KEY})
_ABOUT_DATABASE = _ABOUT_MODEL | {"dsn", "dims"}


@dataclass(frozen=True)
class SettingProblem:
    """Why the value of a setting cannot be used; `fix` is what to do, empty if `says` tells that."""

    key: str
    says: str
    fix: str = ""


@dataclass
class SettingsTrial:
    """The result of trying changes: `wanted` is valid if there is no problem."""

    wanted: Settings
    changed: frozenset[str]
    api_key: str | None = None  # empty removes it, None leaves it
    now: dict[str, Any] = field(default_factory=dict)  # values that differ from those shown
    problems: list[SettingProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def changes(self, home: Path, current: Settings) -> Changes:
        """Return what has to be written."""
        return changes_to(home, current, self.wanted, explicit=self.changed - {API_KEY}, api_key=self.api_key)


def is_hidden(field: Field, value: Any) -> bool:
    """Return whether the value of a setting is not shown: an address with a password in it is a secret, too."""
    return field.secret or (isinstance(value, str) and masked(value) != value)


def tried(
    home: Path, current: Settings, changes_wanted: Mapping[str, Any], shown: Mapping[str, Any] | None = None
) -> SettingsTrial:
    """Try settings by their names; null or an empty text means the default. Raises InvalidArgument for other names.

    `shown`: the values that whoever wants this saw, each of which must still be the current one.
    """
    trial = _read(current, changes_wanted)
    _note_overtaken(trial, current, shown or {})
    _keep_key(trial, home, current)
    if not trial.problems and trial.changed & _ABOUT_DATABASE:
        _try_stores(trial, home, current)
    return trial


def _read(current: Settings, changes_wanted: Mapping[str, Any]) -> SettingsTrial:
    """Return what is wanted, with a problem for each value that its setting does not allow."""
    given = {key: clean(raw).strip() if isinstance(raw, str) else raw for key, raw in changes_wanted.items()}
    if unknown := given.keys() - OFFERED.keys() - {API_KEY}:
        names = ", ".join(sorted(clean(key)[:64] for key in unknown))
        raise InvalidArgument(f"{names} cannot be set here, only {', '.join([*OFFERED, API_KEY])}")
    trial = SettingsTrial(current, frozenset(given.keys() & {API_KEY}))
    if trial.changed:
        trial.api_key = _key(given.pop(API_KEY))
    for key, value in given.items():
        try:
            trial.wanted = replace(trial.wanted, **{key: _value(OFFERED[key], value)})
        except Rejected as why:
            trial.problems.append(SettingProblem(key, f"expected {OFFERED[key].expected}, got {why}"))
    trial.changed |= {key for key in given if getattr(trial.wanted, key) != getattr(current, key)}
    return trial


def _note_overtaken(trial: SettingsTrial, current: Settings, shown: Mapping[str, Any]) -> None:
    for key in sorted(trial.changed & shown.keys() & OFFERED.keys()):
        now = getattr(current, key)
        if shown[key] != now and not is_hidden(OFFERED[key], now):
            trial.now[key] = now
            says = f"somebody else has set it to {json.dumps(now)} meanwhile"
            trial.problems.append(SettingProblem(key, says, "test again, and save, if yours is to replace it"))


def _keep_key(trial: SettingsTrial, home: Path, current: Settings) -> None:
    """Add a problem if a key that stays set would go to another address than before: it may be anybody's."""
    url = trial.wanted.embed_url
    goes_elsewhere = url and not is_local(url) and _origin(url) != _origin(current.embed_url)
    if goes_elsewhere and _key_left(trial, home):
        says = "the key that is set may be that of another address, and is sent to this one only if you give it again"
        fix = "give the key of the new address; any word if it needs none"
        trial.problems.append(SettingProblem(API_KEY, says, fix))


def _key_left(trial: SettingsTrial, home: Path) -> str:
    """Return the key that agents would use and that nobody has given here."""
    if trial.api_key is None:
        return environment(home).get(trial.wanted.embed_api_key_env, "")
    # A key that is given or emptied is kept in our own variable. One that was exported stays if that is emptied.
    key = environment(home).get(API_KEY_ENV, "")
    return "" if trial.api_key or key == read_dotenv(home).get(API_KEY_ENV) else key


def _origin(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
    except ValueError:  # the endpoint will say so
        return "", url
    return parts.scheme, parts.netloc.rpartition("@")[2].lower()


def _key(given: Any) -> str:
    if not isinstance(given, str | None):
        raise InvalidArgument(f"{API_KEY} must be text")
    return given or ""


def _value(field: Field, given: Any) -> Any:
    return field.default if given in (None, "") else coerce(field, given)


def _try_stores(trial: SettingsTrial, home: Path, current: Settings) -> None:
    """Try the database, then the model against its contents; settle the length of vectors that follows from both."""
    try:
        database = _database(trial, home, current)
    except HermesPgvectorError as exc:
        trial.problems.append(SettingProblem("dsn", masked(str(exc))))
        return
    if "dsn" in trial.changed:
        trial.notes.append(
            "what is stored in the database of before stays there; hermes-pgvector copy --to DSN takes it along"
        )
    held = database.room.held
    dims = held.dims if held else trial.wanted.dims
    if trial.wanted.embed_url and trial.changed & (_ABOUT_MODEL | {"dsn"}):
        try:
            dims = _dims_of_model(trial, home, database)
        except HermesPgvectorError as exc:
            key = "embed_model" if trial.changed & _ABOUT_MODEL == {"embed_model"} else "embed_url"
            trial.problems.append(SettingProblem(key, masked(str(exc))))
            return
    _settle_dims(trial, dims)


def _database(trial: SettingsTrial, home: Path, current: Settings) -> DatabaseChoice:
    """Return the database, as setup sees it. Raises HermesPgvectorError if agents cannot work with it."""
    options = SetupOptions(dsn=trial.wanted.dsn)
    step = DatabaseStep(home, current, options, Terminal(StringIO()), lambda line: None, trial.notes)
    found = step.take(again=False)
    trial.notes.append(f"the database: {found.describe()}")
    return found


def _dims_of_model(trial: SettingsTrial, home: Path, database: DatabaseChoice) -> int:
    wanted = trial.wanted
    key = trial.api_key if trial.api_key is not None else environment(home).get(wanted.embed_api_key_env, "")
    found = try_embedding(wanted, key, home, database.room)
    trial.notes.append(
        f"{found.space.model} answered in {found.took_ms:.0f} ms with vectors of {found.space.dims} dimensions"
    )
    if found.resize:
        trial.problems.append(
            SettingProblem(
                "embed_model",
                f"the database was made for vectors of another length than {found.space.dims}; nothing is stored yet",
                "hermes-pgvector setup, which makes room for them",
            )
        )
    return found.space.dims


def _settle_dims(trial: SettingsTrial, dims: int) -> None:
    if "dims" in trial.changed and trial.wanted.dims != dims:
        trial.problems.append(
            SettingProblem(
                "dims",
                f"database and model have vectors of {dims} dimensions, so it cannot be {trial.wanted.dims}",
                "leave it; hermes-pgvector reembed changes model and length together",
            )
        )
    elif dims != trial.wanted.dims:
        trial.notes.append(f"the embedding dimensions become {dims}")
        trial.wanted = replace(trial.wanted, dims=dims)
        trial.changed |= {"dims"}
