"""Every setting, in one table: its type, default, bounds, meaning and environment name.

The fields of `Settings` are that table (`FIELDS` is its readable form). The configuration reference, the
host's setup form and the environment names are made from it, so a setting is added in one place.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..domain.redaction import masked
from ..domain.theme import DEFAULT_LANGUAGE, LANGUAGES, RETENTION_PATTERN

SECTION = "plugins.pgvector"
ENV_PREFIX = "HERMES_PGVECTOR_"
# Names with our prefix that are read somewhere but are not settings.
KNOWN_ENV = frozenset(
    f"{ENV_PREFIX}{name}"
    for name in ("EMBED_API_KEY", "RERANK_API_KEY", "ADMIN_DSN", "SOURCE_DSN", "TARGET_DSN", "DEBUG")
)

CONNECTIONS = ("dsn", "read_dsn")  # of which all but the password may be shown
TOOLS = ("recall_memory", "recall_conversation", "remember", "forget", "memory_profile")  # all there are
EXPRESSIONS = "regular expressions"  # the form of a list of them
TIME_ZONE = "a time zone that this machine knows, such as Europe/Berlin"
_ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]*"


def _setting(default: object, doc: str, **more: Any) -> Any:
    """Return a dataclass field with its documentation and its other attributes as in `Field`."""
    return dataclasses.field(default=default, metadata={"doc": doc, **more})


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """Checked settings. Hashable, so that equal settings share one pool, writer and embedder in a process."""

    dsn: str = _setting(
        "",
        "Postgres to use, as a libpq URI or key=value string; empty starts the embedded one",
        secret=True,
        label="Postgres DSN",
    )
    read_dsn: str = _setting(
        "",
        "Streaming replica of `dsn` that recall reads from while it is up and recent enough; empty reads from `dsn`",
        secret=True,
    )
    read_max_lag_s: float = _setting(
        10.0,
        "How far the replica may be behind with what other processes wrote, in seconds; own writes are always found",
        low=1.0,
        high=600.0,
    )
    embed_url: str = _setting(
        "",
        "Base URL of an Ollama or OpenAI-compatible embedding endpoint, or local:NAME for an installed model; "
        "empty makes recall lexical only",
        label="Embedding endpoint",
    )
    embed_model: str = _setting(
        "nomic-embed-text", "Embedding model the endpoint is asked for", label="Embedding model"
    )
    embed_api: str = _setting("auto", "Protocol of the endpoint; auto detects it", choices=("auto", "ollama", "openai"))
    embed_api_key_env: str = _setting(
        "HERMES_PGVECTOR_EMBED_API_KEY", "Environment variable that holds the endpoint's API key", pattern=_ENV_NAME
    )
    embed_timeout_s: float = _setting(10.0, "Longest wait for one embedding request, in seconds", low=0.05, high=600)
    embed_batch_size: int = _setting(64, "Most texts in one embedding request", low=1, high=2048)
    embed_batch_tokens: int = _setting(
        8192, "Most tokens in one embedding request, by an estimate; a longer text goes alone", low=64, high=1_000_000
    )
    embed_dimensions: str = _setting(
        "auto",
        "Ask the endpoint for vectors of `dims` floats; auto does so if the model's are longer and may be shortened",
        choices=("auto", "always", "never"),
    )
    embed_query_prefix: str = _setting(
        "auto", "Prefix of a question for the model; auto takes the known one of the model, empty none"
    )
    embed_document_prefix: str = _setting("auto", "Prefix of a stored text for the model, likewise")
    embed_ca_file: str = _setting(
        "",
        "File with the certificates to trust of the embedding and the rerank endpoint; empty trusts SSL_CERT_FILE "
        "or the usual ones",
    )
    embed_threads: int = _setting(1, "CPU threads that work on one text with a local model", low=1, high=64)
    dims: int = _setting(
        768,
        "Length of an embedding; must equal what the model gives and what the migration created",
        low=1,
        high=2000,
        label="Embedding dimensions",
    )
    prefetch_limit: int = _setting(
        5,
        "Most memories put before a turn without asking; 0 puts none",
        low=0,
        high=50,
        label="Memories recalled before a turn",
    )
    prefetch_deadline_s: float = _setting(
        1.5, "Longest time a turn waits for its memories, in seconds", low=0.01, high=8.0
    )
    prefetch_max_tokens: int = _setting(800, "Size limit of what is put before a turn, in tokens", low=64, high=100_000)
    prefetch_passes: str = _setting(
        "one",
        "one: what answers the message; several: with the first message of a session also the end of the previous ones",
        choices=("one", "several"),
    )
    prefetch_recent_turns: int = _setting(
        3,
        "Turns of each previous session that the first message of a session gets; only with several passes",
        low=0,
        high=50,
    )
    hot_tokens: int = _setting(
        180,
        "Size limit of the hot block in the system prompt (what is pinned; constraints, open questions, decisions and "
        "values that hold), in tokens; 0 leaves it out",
        low=0,
        high=4000,
    )
    hot_deadline_s: float = _setting(
        0.3, "Longest time the first prompt of a session waits for the hot block, in seconds", low=0.01, high=8.0
    )
    hot_scope_days: float = _setting(
        14.0,
        "Days of silence after which a scope has cooled: when the hot block is nearly full, its facts leave it",
        low=0.01,
        high=3650,
    )
    hot_scope_turns: int = _setting(
        100, "Turns of the theme without a word of a scope after which the scope has cooled, too", low=1, high=1000
    )
    prefetch_recent_sessions: int = _setting(
        1,
        "Previous sessions of which the first message of a session gets the end; only with several passes",
        low=1,
        high=20,
    )
    recall_deadline_s: float = _setting(5.0, "Longest time a recall tool call takes, in seconds", low=0.01, high=300)
    recall_max_tokens: int = _setting(2000, "Size limit of a recall tool's answer, in tokens", low=200, high=100_000)
    rerank: str = _setting(
        "auto",
        "Final ranking of the best results: auto asks the endpoint of rerank_url or, without one, the bundled "
        "cross-encoder if it is installed and the question is English; off leaves the order of the search",
        choices=("auto", "off"),
    )
    rerank_url: str = _setting("", "Base URL of an endpoint with a cross-encoder that reranks the results")
    rerank_model: str = _setting("", "Model the rerank endpoint is asked for; empty names none")
    rerank_api: str = _setting(
        "auto", "Protocol of the rerank endpoint; auto detects it", choices=("auto", "cohere", "tei")
    )
    rerank_api_key_env: str = _setting(
        "HERMES_PGVECTOR_RERANK_API_KEY",
        "Environment variable that holds the rerank endpoint's API key",
        pattern=_ENV_NAME,
    )
    rerank_deadline_s: float | Literal["auto"] = _setting(
        "auto",
        "Longest time that reranking takes, in seconds, within the deadline of the recall; auto is 1 for an endpoint "
        "and 0.1 for the bundled cross-encoder",
        low=0.01,
        high=60,
        word="auto",
    )
    rerank_candidates: int = _setting(
        20, "Results that are reranked; the bundled cross-encoder takes 40 at most", low=2, high=200
    )
    rerank_prefetch: bool = _setting(
        False, "Ask the rerank endpoint for what is put before a turn, too; the bundled cross-encoder always is"
    )
    min_similarity: float | Literal["auto"] = _setting(
        "auto",
        "Cosine similarity from which a row is put before a turn; auto measures the embedding model that is in use",
        low=-1.0,
        high=1.0,
        word="auto",
        label="Minimum similarity",
    )
    timezone: str = _setting(
        "",
        "Zone in which a user's days begin and what is recalled is dated, such as Europe/Berlin; empty takes the "
        "host's `timezone`, or this machine's",
        form=TIME_ZONE,
    )
    text_language: str = _setting(
        DEFAULT_LANGUAGE,
        "Language in which lexical recall stems words; simple stems nothing; applies to what is stored from then on",
        choices=LANGUAGES,
    )
    text_languages: tuple[str, ...] = _setting(
        (),
        "Languages of single themes, each as theme=language; the theme may end with *",
        pattern=rf".+=({'|'.join(LANGUAGES)})",
        form="theme=language",
    )
    retention: tuple[str, ...] = _setting(
        (),
        "Days after which turns are deleted, each as theme=days, with roles after the days if not all are meant, or "
        "theme=forever; the theme may end with *; or a mapping; empty keeps all. Never deletes memories",
        pattern=RETENTION_PATTERN,
        form="theme=days",
    )
    embed_on_write: bool = _setting(True, "Embed rows as they are written; off stores text only")
    chunk_tokens: int = _setting(
        400, "Length from which a text is embedded in overlapping parts of that length, in tokens", low=64, high=8000
    )
    scope_default: str = _setting(
        "current", "Scope of a recall tool call that names none", choices=("current", "session", "all")
    )
    write_queue_maxsize: int = _setting(
        256,
        "No effect, accepted from other providers' settings; the limit is `write_queue_max_mb`",
        low=1,
        high=1_000_000,
    )
    write_queue_max_mb: int = _setting(
        64, "Most memory for writes while neither Postgres nor a disk takes them, in MB", low=1, high=100_000
    )
    bulk_sync_on_init: bool = _setting(True, "Reconcile with MEMORY.md and USER.md when a session starts")
    removal_hold_days: float = _setting(
        7.0,
        "Days for which doctor asks what becomes of memories that a lost, emptied or shortened memory file held; "
        "undecided, they are kept",
        low=0.01,
        high=3650,
    )
    tools: tuple[str, ...] = _setting(
        (), "Tools the model gets besides recall_memory and recall_conversation, which it always gets", choices=TOOLS
    )
    structure: bool = _setting(
        False, "Tell the model that remember takes a kind, a subject, a scope, a time and what it replaces"
    )
    sync_turns: bool = _setting(True, "Store the turns of conversations", label="Store conversation turns")
    delegation_memory: bool = _setting(
        False, "Keep what a sub-agent found as a memory of its parent as well, not only as a turn"
    )
    turn_min_chars: int = _setting(
        40,
        "Length from which one side of a turn is worth storing, in characters; shorter ones are if they tell as much",
        low=0,
        high=100_000,
    )
    turn_max_mb: int = _setting(
        4,
        "Longest text of a turn or memory that is kept whole, in million characters; of a longer one both ends are",
        low=1,
        high=50,
    )
    pool_max_size: int = _setting(4, "Most Postgres connections of one process", low=1, high=100)
    pooler: str = _setting(
        "auto",
        "Whether `dsn` names a pooler in transaction mode, such as PgBouncer; auto detects it",
        choices=("auto", "none", "transaction"),
    )
    spool_max_mb: int = _setting(256, "Most disk the spool of unsent writes takes, in MB", low=1, high=1_000_000)
    spool_sync: str = _setting(
        "normal", "normal survives the end of the process, full also a power cut", choices=("normal", "full")
    )
    spool_keep_s: float = _setting(
        600.0,
        "How long acknowledged writes are kept, to send them again to a server that lacks them, in seconds",
        low=0.0,
        high=86_400.0,
    )
    shutdown_timeout_s: float = _setting(
        2.0, "Longest time a shutdown waits for writes, in seconds; the rest stays in the spool", low=0.0, high=60.0
    )
    write_contexts: tuple[str, ...] = _setting(("primary",), "Agent contexts that may write; the others only recall")
    default_theme: str = _setting("default", "Theme used when nothing else names one")
    allowed_themes: tuple[str, ...] = _setting(
        (),
        "Themes that a header, profile or workspace may name, also patterns such as `intraday-*`; default_theme is "
        "used instead of others; empty allows all",
    )
    theme_aliases: tuple[str, ...] = _setting(
        (),
        "Other names of themes, each as alias=theme; or a mapping",
        pattern=r"[^\s=][^=]*=.*\S.*",
        form="alias=theme",
    )
    messaging_theme: str = _setting(
        "split",
        "Theme of a messaging chat: chat its own, profile the profile's, split its own for turns and the profile's "
        "for memories",
        choices=("split", "chat", "profile"),
    )
    cross_theme: tuple[str, ...] = _setting(
        ("agents",),
        "Themes a tool call may read besides its own: none, all, agents (all, but nothing from a messaging chat), or "
        "names",
    )
    shared_chats: tuple[str, ...] = _setting(
        (),
        "Messaging chats that sessions of other themes may read: slack (its groups and channels, no direct messages), "
        "@slack/* or the theme of one chat (all that is said there); empty shares none",
        pattern=r"@[^*]+\*?|[^@*/\s]+",
        form="platform or @theme",
    )
    recall_off: tuple[str, ...] = _setting((), "Themes whose sessions recall nothing, for agents that face customers")
    identity_key: str = _setting(
        "", "Key for the digests of chats, users and telephone numbers; changing it gives every chat a new theme",
        secret=True,
    )  # fmt: skip
    mask_secrets: bool = _setting(True, "Mask passwords, keys and tokens before anything is stored")
    history_texts: bool = _setting(
        True, "Keep in the history what a memory said before it was replaced, until the memory is removed"
    )
    mask_patterns: tuple[str, ...] = _setting(
        (), "Further regular expressions to mask; the whole match is hidden", form=EXPRESSIONS
    )
    embedded_dir: str = _setting("", "Data directory of the embedded Postgres; empty picks one")
    embedded_bin_dir: str = _setting("", "Directory with the Postgres programs to use; empty finds them")
    embedded_run_as: str = _setting("", "Account the embedded Postgres runs as when started by root; empty picks one")

    def __repr__(self) -> str:
        shown = ((field, getattr(self, field.key)) for field in FIELDS)
        return f"Settings({', '.join(f'{field.key}={_masked(field, value)!r}' for field, value in shown)})"


class Field(NamedTuple):
    """The attributes of one setting. `kind` is str, int, float, bool or tuple (a list of words).

    `word` is the word that a float may be instead of a number; a setting with a word is a float. `label` is its name in
    the host's forms, empty if it is not in them.
    """

    key: str
    kind: type
    default: object
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    form: str = ""
    word: str = ""
    secret: bool = False
    label: str = ""

    @property
    def env(self) -> str:
        """Return the environment variable that overrides the file."""
        return ENV_PREFIX + self.key.upper()

    @property
    def shown_default(self) -> str:
        """Return the default as it is written in config.yaml; empty if it is."""
        if isinstance(self.default, tuple):
            return ", ".join(self.default)
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    @property
    def expected(self) -> str:
        """Return what a value must be, in words."""
        if self.choices:
            return ("any of " if self.kind is tuple else "one of ") + ", ".join(self.choices)
        if self.form:
            return f"a list of {self.form}" if self.kind is tuple else self.form
        if self.pattern:
            return "the name of an environment variable"
        noun = {int: "an integer", float: "a number", bool: "true or false", tuple: "a list of words"}.get(
            self.kind, "one line of text"
        )
        limited = noun if self.low is None else f"{noun} from {self.low:g} to {self.high:,.10g}"
        return f"{self.word} or {limited}" if self.word else limited


FIELDS: tuple[Field, ...] = tuple(
    Field(item.name, float if "word" in item.metadata else type(item.default), item.default, **item.metadata)
    for item in dataclasses.fields(Settings)
)


def _masked(field: Field, value: object) -> object:
    if field.secret and field.key not in CONNECTIONS:
        return "***" if value else ""
    return masked(value) if isinstance(value, str) else value
