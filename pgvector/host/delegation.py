"""What a sub-agent was asked and found, as its parent keeps it."""

from __future__ import annotations

import time
import uuid

from ..domain.operations import Message, RememberMemory, StoreTurn
from ..domain.text import named_uuid
from .session_context import SessionContext

_NAMESPACE = uuid.UUID("0b5f7f0e-6b0a-4c38-9d53-3f1b9f4f6f57")


class Delegation:
    """A finished delegation. `session` is the parent's, `child` the sub-agent's; the host may report it twice."""

    def __init__(
        self, context: SessionContext, session: str, child: str, asked: str, found: str, provenance: dict[str, str]
    ) -> None:
        self._context = context
        self._session = session
        self._found = found
        self._names = (session, child, asked, found)
        self._text = f"Delegated: {asked}\nResult: {found}"
        edge = {"parent": session} | ({"child": child} if child else {})
        more = {"source": "delegation", "child_session_id": child}
        self._metadata = {**provenance, **{key: value for key, value in more.items() if value}, "delegation": edge}

    def as_turn(self) -> StoreTurn:
        """Return a turn of role `tool` in the parent's session."""
        theme = self._context.theme.name
        return StoreTurn(
            theme=theme,
            at=time.time(),
            op_id=self._op_id("turn", theme),
            session_id=self._session,
            messages=(Message("tool", self._text),),
            metadata=self._metadata,
        )

    def as_memory(self) -> RememberMemory | None:
        """Return a durable memory of the parent's; None where nothing was found."""
        if not self._found:
            return None
        theme = self._context.place.memories.name
        return RememberMemory(
            theme=theme,
            at=time.time(),
            op_id=self._op_id("remember", theme),
            target="memory",
            content=self._text,
            metadata=self._metadata,
            owner="delegation",
        )

    def _op_id(self, kind: str, theme: str) -> uuid.UUID:
        return named_uuid(_NAMESPACE, "\0".join((kind, theme, *self._names)))
