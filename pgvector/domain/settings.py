"""Every setting, in one table: its type, default, bounds, meaning and environment name.

The fields of `Settings` are that table (`FIELDS` is its readable form). The configuration reference, the
host's setup form and the environment names are made from it, so a setting is added in one place.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .dsn import mask_dsn

__all__ = ["ENV_PREFIX", "FIELDS", "KNOWN_ENV", "SECTION", "Field", "Loaded", "Settings", "load", "mask_dsn"]

SECTION = "plugins.pgvector"
ENV_PREFIX = "HERMES_PGVECTOR_"
# Names with our prefix that are read somewhere but are not settings.
KNOWN_ENV = frozenset({"HERMES_PGVECTOR_EMBED_API_KEY", "HERMES_PGVECTOR_ADMIN_DSN"})

_TRUE = frozenset({"true", "yes", "on", "1", "y", "t"})
_FALSE = frozenset({"false", "no", "off", "0", "n", "f"})
_ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]*"


class _Rejected(Exception):
    """A value that cannot be used for a setting."""


def _setting(
    default: object,
    doc: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    pattern: str = "",
    secret: bool = False,
    wizard: bool = False,
) -> Any:
    """A dataclass field that carries its own documentation and limits."""
    metadata = {
        "doc": doc, "low": low, "high": high, "choices": choices, "pattern": pattern, "secret": secret,
        "wizard": wizard,
    }  # fmt: skip
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """Checked settings. Hashable, so that equal settings share one pool, writer and embedder in a process."""

    dsn: str = _setting(
        "",
        "Postgres to use, as a libpq URI or key=value string; empty starts the embedded one",
        secret=True,
        wizard=True,
    )
    embed_url: str = _setting(
        "", "Base URL of an Ollama or OpenAI-compatible embedding endpoint; empty recalls by words only", wizard=True
    )
    embed_model: str = _setting("nomic-embed-text", "Embedding model the endpoint is asked for", wizard=True)
    embed_api: str = _setting(
        "auto", "Protocol the endpoint speaks; auto finds out", choices=("auto", "ollama", "openai")
    )
    embed_api_key_env: str = _setting(
        "HERMES_PGVECTOR_EMBED_API_KEY", "Environment variable that holds the endpoint's API key", pattern=_ENV_NAME
    )
    embed_timeout_s: float = _setting(10.0, "Longest wait for one embedding request, in seconds", low=0.05, high=600)
    dims: int = _setting(
        768, "Length of an embedding; must equal what the model gives and what the migration created", low=1, high=2000
    )
    prefetch_limit: int = _setting(
        5, "Most memories put before a turn by themselves; 0 turns that off", low=0, high=50, wizard=True
    )
    prefetch_deadline_s: float = _setting(
        1.5, "Longest time a turn waits for its memories, in seconds", low=0.01, high=8.0
    )
    prefetch_max_tokens: int = _setting(800, "Size limit of what is put before a turn, in tokens", low=16, high=100_000)
    recall_deadline_s: float = _setting(5.0, "Longest time a recall tool call takes, in seconds", low=0.01, high=300)
    min_similarity: float = _setting(
        0.30, "Cosine similarity below which nothing is put before a turn", low=-1.0, high=1.0, wizard=True
    )
    embed_on_write: bool = _setting(True, "Embed rows as they are written; off stores text only")
    scope_default: str = _setting(
        "current", "Scope of a recall tool call that names none", choices=("current", "session", "all")
    )
    write_queue_maxsize: int = _setting(
        256, "Most writes kept in memory while the spool on disk cannot be written", low=1, high=1_000_000
    )
    bulk_sync_on_init: bool = _setting(True, "Reconcile with MEMORY.md and USER.md when a session starts")
    sync_turns: bool = _setting(True, "Store the turns of conversations", wizard=True)
    turn_min_chars: int = _setting(
        40, "Length from which one side of a turn is worth storing, in characters", low=0, high=100_000
    )
    pool_max_size: int = _setting(4, "Most Postgres connections of one process", low=1, high=100)
    spool_max_mb: int = _setting(256, "Most disk the spool of unsent writes takes, in MB", low=1, high=1_000_000)
    spool_sync: str = _setting(
        "normal", "normal survives the death of the process, full also power loss", choices=("normal", "full")
    )
    shutdown_timeout_s: float = _setting(
        2.0, "Longest time a shutdown waits for writes, in seconds; the rest stays in the spool", low=0.0, high=60.0
    )
    write_contexts: tuple[str, ...] = _setting(("primary",), "Agent contexts that may write; the others only recall")
    default_theme: str = _setting("default", "Theme used when nothing else names one")
    embedded_dir: str = _setting("", "Data directory of the embedded Postgres; empty picks one")
    embedded_bin_dir: str = _setting("", "Directory with the Postgres programs to use; empty finds them")
    embedded_run_as: str = _setting("", "User the embedded Postgres runs as when we are root; empty picks one")

    def __repr__(self) -> str:
        shown = ((field.key, getattr(self, field.key)) for field in FIELDS)
        return f"Settings({', '.join(f'{key}={_masked(value)!r}' for key, value in shown)})"


class Field(NamedTuple):
    """What is known of one setting. `kind` is str, int, float, bool or tuple (a list of words)."""

    key: str
    kind: type
    default: object
    doc: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    pattern: str
    secret: bool
    wizard: bool

    @property
    def env(self) -> str:
        """The environment variable that overrides the file."""
        return ENV_PREFIX + self.key.upper()

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.pattern:
            return "the name of an environment variable"
        noun = {int: "an integer", float: "a number", bool: "true or false", tuple: "a list of words"}.get(
            self.kind, "one line of text"
        )
        return noun if self.low is None else f"{noun} from {self.low:g} to {self.high:,.10g}"


FIELDS: tuple[Field, ...] = tuple(
    Field(key=item.name, kind=type(item.default), default=item.default, **item.metadata)
    for item in dataclasses.fields(Settings)
)
_BY_KEY = {field.key: field for field in FIELDS}
_BY_ENV = {field.env: field for field in FIELDS}


class Loaded(NamedTuple):
    """Settings that can be used as they are, and one sentence for each thing that was wrong."""

    settings: Settings
    warnings: tuple[str, ...]


def load(section: object, environ: Mapping[str, str]) -> Loaded:
    """Settings from the file's section with the environment over it; never raises.

    `section` is whatever YAML gave. A value that cannot be used leaves the default (or, if it came from the
    environment, what the file says) in place and adds one warning; a key that does not exist adds one, too.
    No warning contains the text of a free-text setting, which may be a password.
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
            f"{SECTION} must hold settings, one `name: value` a line, not {_type_of(section)}; using defaults"
        )
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
    key_env = values.get("embed_api_key_env")
    for name in unknown_env:
        if name != key_env:
            near = _nearest(name.removeprefix(ENV_PREFIX), prefix=ENV_PREFIX)
            warnings.append(f"unknown environment variable {_shown_key(name)}, ignored; {near}")
    return Loaded(Settings(**values), tuple(warnings))  # type: ignore[arg-type]


def _take(field: Field, raw: object, origin: str, values: dict[str, object], warnings: list[str]) -> None:
    try:
        values[field.key] = _coerce(field, raw)
    except _Rejected as why:
        if field.key in values:
            used = "using what the file says"
        else:
            default = ", ".join(field.default) if isinstance(field.default, tuple) else str(field.default)
            used = f"using the default {default or '(empty)'}"
        warnings.append(f"{origin}: expected {field.expected}, got {why}; {used}")


def _coerce(field: Field, raw: object) -> object:
    """The value in the field's own type. Raises _Rejected with what it was instead, in words safe to log."""
    if field.kind is bool:
        return _as_bool(raw)
    if field.kind is int or field.kind is float:
        number = _as_number(raw, whole=field.kind is int)
        low, high = field.low, field.high
        if (low is not None and number < low) or (high is not None and number > high):
            raise _Rejected(_shown_number(number))
        return number
    if field.kind is tuple:
        return _as_words(raw)
    text = _as_text(raw)
    if field.choices:
        choice = text.lower()
        if choice not in field.choices:
            raise _Rejected(_quoted(text))
        return choice
    if field.pattern and not re.fullmatch(field.pattern, text):
        raise _Rejected("text that cannot be one")
    return text


def _as_bool(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, (int, float)) and raw in (0, 1):
        return raw == 1
    if isinstance(raw, str):
        word = raw.strip().lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        raise _Rejected(_quoted(raw))
    raise _Rejected(_shown_number(raw) if isinstance(raw, (int, float)) else _type_of(raw))


def _as_number(raw: object, *, whole: bool) -> int | float:
    if isinstance(raw, bool):
        raise _Rejected("true or false")
    if isinstance(raw, str):
        word = raw.strip()
        try:
            raw = int(word)
        except ValueError:
            try:
                raw = float(word)
            except ValueError:
                raise _Rejected(_quoted(word)) from None
    if not isinstance(raw, (int, float)):
        raise _Rejected(_type_of(raw))
    if isinstance(raw, float):
        if not math.isfinite(raw) or (whole and not raw.is_integer()):
            raise _Rejected(str(raw))
    elif raw.bit_length() > 1000:  # more than a float can hold
        raise _Rejected(_shown_number(raw))
    return int(raw) if whole else float(raw)


def _as_text(raw: object) -> str:
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        try:
            return str(raw)
        except ValueError:  # Python refuses to print integers of more than 4,300 digits
            raise _Rejected("a very large number") from None
    if not isinstance(raw, str):
        raise _Rejected(_type_of(raw))
    text = str(raw).strip()
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise _Rejected("text with control characters")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _Rejected("text that is not UTF-8") from None
    return text


def _as_words(raw: object) -> tuple[str, ...]:
    if isinstance(raw, str):
        raw = _as_text(raw).split(",")
    if not isinstance(raw, (list, tuple, set, frozenset)):
        raise _Rejected(_type_of(raw))
    words: list[str] = []
    for item in raw:
        word = _as_text(item)
        if word and word not in words:
            words.append(word)
    return tuple(words)


def _type_of(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple, set)):
        return "a list"
    return f"a value of type {type(value).__name__}"


def _shown_number(value: int | float) -> str:
    return str(value) if isinstance(value, float) or value.bit_length() <= 64 else "a very large number"


def _quoted(text: str) -> str:
    return ascii(mask_dsn(text)[:60])


def _shown_key(key: object) -> str:
    if isinstance(key, str):
        return _quoted(key)
    return _shown_number(key) if isinstance(key, (int, float)) else _type_of(key)


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


def _masked(value: object) -> object:
    return mask_dsn(value) if isinstance(value, str) else value
