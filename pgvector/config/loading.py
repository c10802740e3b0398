"""Checked settings from the file's section, the form and the environment."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from .coerce import Rejected, coerce, quoted, shown_number, type_of
from .settings import ENV_PREFIX, FIELDS, KNOWN_ENV, SECTION, Field, Settings

_BY_KEY = {field.key: field for field in FIELDS}
_BY_ENV = {field.env: field for field in FIELDS}
# Settings of the other provider of this name, which a config.yaml may still hold.
_OF_OTHERS = {"hybrid_search": "recall always goes by meaning and by words; take it out"}


class Loaded(NamedTuple):
    """Settings that can be used as they are, and one sentence for each thing that was wrong."""

    settings: Settings
    warnings: tuple[str, ...]


def load(section: object, environ: Mapping[str, str], form: Mapping[str, object] | None = None) -> Loaded:
    """Return settings from the file's section with the host's form and the environment over it; never raises.

    `section` is whatever YAML gave, `form` what the desktop's form saved; there a blank says nothing. A value that
    cannot be used leaves the default (or, if it came from the form or the environment, what stands below it) in place
    and adds one warning; a key that does not exist adds one, too. No warning contains the text of a free-text setting,
    which may be a password.
    """
    found = _Found()
    found.take_section(section)
    found.take_form(form or {})
    found.take_environment(environ)
    if found.values.get("read_dsn") and not found.values.get("dsn"):
        del found.values["read_dsn"]
        found.warnings.append(
            f"{SECTION}.read_dsn: a replica needs a primary, and `dsn` names none (the embedded Postgres has no "
            "replicas); ignored: set dsn as well, or leave read_dsn out"
        )
    return Loaded(Settings(**found.values), tuple(found.warnings))


class _Found:
    """Settings from one source after the other, and what was wrong there."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.warnings: list[str] = []

    def take_section(self, section: object) -> None:
        """Take what the file says."""
        if section is not None and not isinstance(section, Mapping):
            kind = type_of(section)
            self.warnings.append(f"{SECTION} must hold settings, one `name: value` a line, not {kind}; using defaults")
            return
        for key, raw in (section or {}).items():
            field = _BY_KEY.get(key) if isinstance(key, str) else None
            if field is None:
                self.warnings.append(f"{SECTION}: unknown setting {_shown_key(key)}, ignored; {_advice(key)}")
            elif raw is not None:
                self._take(field, raw, f"{SECTION}.{field.key}")

    def take_form(self, form: Mapping[str, object]) -> None:
        """Take what the form saved; names that are not ours may stand there."""
        for key, raw in form.items():
            if key in _BY_KEY and raw not in (None, ""):
                self._take(_BY_KEY[key], raw, f"the form's {key}")

    def take_environment(self, environ: Mapping[str, str]) -> None:
        """Take the variables with our prefix."""
        ours = {name: raw for name, raw in environ.items() if name.startswith(ENV_PREFIX) and raw.strip()}
        for name in [name for name in ours if name in _BY_ENV]:
            self._take(_BY_ENV[name], ours.pop(name), name)
        known = KNOWN_ENV | {self.values.get("embed_api_key_env"), self.values.get("rerank_api_key_env")}
        for name in ours:
            if name not in known:
                advice = _advice(name.removeprefix(ENV_PREFIX), prefix=ENV_PREFIX)
                self.warnings.append(f"unknown environment variable {_shown_key(name)}, ignored; {advice}")

    def _take(self, field: Field, raw: object, origin: str) -> None:
        try:
            self.values[field.key] = coerce(field, raw)
        except Rejected as why:
            used = self._instead(field, why)
            self.warnings.append(f"{origin}: expected {field.expected}, got {why}; {used}")

    def _instead(self, field: Field, why: Rejected) -> str:
        """Settle what counts in the place of a value that cannot be used; return that in words."""
        if field.key == "retention":  # what was meant may be more than what an older place says
            self.values[field.key] = field.default
            return "nothing is deleted by it"
        if why.rest:
            self.values[field.key] = why.rest
            return "using the others"
        if field.key in self.values:
            return "using what the file says"
        default = ", ".join(field.default) if isinstance(field.default, tuple) else str(field.default)
        return f"using the default {default or '(empty)'}"


def _shown_key(key: object) -> str:
    if isinstance(key, str):
        return quoted(key)
    return shown_number(key) if isinstance(key, (int, float)) else type_of(key)


@functools.lru_cache(maxsize=256)
def _advice(key: object, *, prefix: str = "") -> str:
    """Return what may have been meant by a name that is no setting."""
    if not isinstance(key, str):
        return "settings have names"
    name = key.lower().replace("-", "_")[:60]
    if name in _OF_OTHERS:
        return _OF_OTHERS[name]
    close = difflib.get_close_matches(name, _BY_KEY, n=1, cutoff=0.6)
    if not close:
        return "no setting has a name like it"
    return f"did you mean {prefix + close[0].upper() if prefix else close[0]}?"
