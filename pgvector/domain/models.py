"""The things the package speaks of."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Store = Literal["memories", "turns"]
ScopeKind = Literal["theme", "session", "all"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One accepted write. `kind` names the shape of `payload`; `at` is the hook's clock, in seconds since the epoch.

    kind      payload
    add       target, content, metadata, origin
    replace   target, content, old_text, metadata, origin
    remove    target, old_text, origin
    reconcile target, contents (list of str), file_time, origin, metadata
    turn      session_id, messages (list of {role, content}), metadata
    """

    kind: str
    theme: str
    payload: dict[str, Any]
    at: float
    op_id: uuid.UUID = field(default_factory=uuid.uuid4)
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look: one theme, one session of that theme, or every theme."""

    kind: ScopeKind
    theme: str
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row that one leg of the search proposes; `score` is similarity (vector leg) or coverage (lexical leg)."""

    id: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A remembered text. `similarity` is the cosine with the question, None where either has no embedding."""

    store: Store
    id: int
    theme: str
    kind: str
    session_id: str | None
    content: str
    at: datetime
    similarity: float | None
    coverage: float
    score: float
