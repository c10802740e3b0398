"""Every setting, in one table: its type, default, bounds, meaning and environment name.

The fields of `Settings` are that table (`FIELDS` is its readable form). The configuration reference, the
host's setup form and the environment names are made from it, so a setting is added in one place.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

from .dsn import mask_dsn

SECTION = "plugins.pgvector"
ENV_PREFIX = "HERMES_PGVECTOR_"
# Names with our prefix that are read somewhere but are not settings.
KNOWN_ENV = frozenset({"HERMES_PGVECTOR_EMBED_API_KEY", "HERMES_PGVECTOR_ADMIN_DSN"})

_ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]*"


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


def _masked(value: object) -> object:
    return mask_dsn(value) if isinstance(value, str) else value
