"""From the file's section and the environment to checked settings."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from typing import NamedTuple

from .coerce import Rejected, coerce, quoted, shown_number, type_of
from .settings import ENV_PREFIX, FIELDS, KNOWN_ENV, SECTION, Field, Settings

_BY_KEY = {field.key: field for field in FIELDS}
_BY_ENV = {field.env: field for field in FIELDS}


class Loaded(NamedTuple):
    """Settings that can be used as they are, and one sentence for each thing that was wrong."""

    settings: Settings
    warnings: tuple[str, ...]


def load(section: object, environ: Mapping[str, str], form: Mapping[str, object] | None = None) -> Loaded:
    """Settings from the file's section with the host's form and the environment over it; never raises.

    `section` is whatever YAML gave, `form` what the desktop's form saved; there a blank says nothing. A value that
    cannot be used leaves the default (or, if it came from the form or the environment, what stands below it) in place
    and adds one warning; a key that does not exist adds one, too. No warning contains the text of a free-text setting,
    which may be a password.
    """
    values: dict[str, object] = {}
    warnings: list[str] = []
    if isinstance(section, Mapping):
        for key, raw in section.items():
            field = _BY_KEY.get(key) if isinstance(key, str) else None
            if field is None:
                warnings.append(f"{SECTION}: unknown setting {_shown_key(key)}, ignored; {_advice(key)}")
            elif raw is not None:
                _take(field, raw, f"{SECTION}.{field.key}", values, warnings)
    elif section is not None:
        warnings.append(
            f"{SECTION} must hold settings, one `name: value` a line, not {type_of(section)}; using defaults"
        )
    for key, raw in (form or {}).items():
        if (field := _BY_KEY.get(key)) is not None and raw not in (None, ""):
            _take(field, raw, f"the form's {key}", values, warnings)
    unknown_env: list[str] = []
    for name in environ:
        if not name.startswith(ENV_PREFIX):
            continue
        raw_env = environ.get(name, "")
        if not raw_env.strip():
            continue
        field = _BY_ENV.get(name)
        if field is not None:
            _take(field, raw_env, name, values, warnings)
        elif name not in KNOWN_ENV:
            unknown_env.append(name)
    if values.get("read_dsn") and not values.get("dsn"):
        values.pop("read_dsn")
        warnings.append(
            f"{SECTION}.read_dsn: a replica needs a primary, and `dsn` names none (the embedded Postgres has no "
            "replicas); ignored: set dsn as well, or leave read_dsn out"
        )
    key_envs = (values.get("embed_api_key_env"), values.get("rerank_api_key_env"))
    for name in unknown_env:
        if name not in key_envs:
            near = _nearest(name.removeprefix(ENV_PREFIX), prefix=ENV_PREFIX)
            warnings.append(f"unknown environment variable {_shown_key(name)}, ignored; {near}")
    return Loaded(Settings(**values), tuple(warnings))  # type: ignore[arg-type]


def _take(field: Field, raw: object, origin: str, values: dict[str, object], warnings: list[str]) -> None:
    try:
        values[field.key] = coerce(field, raw)
    except Rejected as why:
        if field.key == "retention":  # what was meant may be more than what an older place says
            values[field.key] = field.default
            used = "nothing is deleted by it"
        elif why.rest:
            values[field.key] = why.rest
            used = "using the others"
        elif field.key in values:
            used = "using what the file says"
        else:
            default = ", ".join(field.default) if isinstance(field.default, tuple) else str(field.default)
            used = f"using the default {default or '(empty)'}"
        warnings.append(f"{origin}: expected {field.expected}, got {why}; {used}")


def _shown_key(key: object) -> str:
    if isinstance(key, str):
        return quoted(key)
    return shown_number(key) if isinstance(key, (int, float)) else type_of(key)


@functools.lru_cache(maxsize=256)
def _nearest(key: str, *, prefix: str = "") -> str:
    wanted = key.lower().replace("-", "_")[:60]
    close = difflib.get_close_matches(wanted, _BY_KEY, n=1, cutoff=0.6)
    if close:
        return f"did you mean {_named(close[0], prefix)}?"
    best = difflib.get_close_matches(wanted, _BY_KEY, n=1, cutoff=0.0)[0]
    return f"the nearest setting is {_named(best, prefix)}"


def _advice(key: object) -> str:
    return _nearest(key) if isinstance(key, str) else "settings have names"


def _named(key: str, prefix: str) -> str:
    return prefix + key.upper() if prefix else key
