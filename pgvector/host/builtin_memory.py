"""What happens to the host's built-in memory, as operations for the writer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..capture.sanitize import Sanitizer
from ..domain.operations import AddMemory, FileOperation, ReconcileFile, RemoveMemory, ReplaceMemory
from .session_context import SessionContext
from .turns import storable

if TYPE_CHECKING:
    from ..runtime.process import Runtime


class BuiltInMemory:
    """The built-in memory as one session knows it."""

    def __init__(self, runtime: Runtime, context: SessionContext, keep: Sanitizer) -> None:
        self._runtime = runtime
        self._context = context
        self._keep = keep

    def files(self) -> Iterator[ReconcileFile]:
        """Give what changed files of it hold. They belong to the profile, not to a session key's theme."""
        mirror = self._runtime.mirror
        counts = self._runtime.counts
        of_profile = {key: name for key, name in self._context.scope.items() if key == "profile"}
        for state in mirror.changed():
            contents = dict.fromkeys(storable(each, self._keep, counts) for each in state.contents)
            yield ReconcileFile(
                theme=self._context.place.files.name,
                at=time.time(),
                target=state.target,
                contents=tuple(contents),
                file_time=state.written_at,
                damaged=state.damaged,
                noted_at=state.read_at,
                origin=mirror.origin,
                metadata={"source": "file"} | of_profile,
            )

    def written(
        self, action: str, target: str, content: Any, metadata: Mapping[str, Any] | None, provenance: dict[str, str]
    ) -> FileOperation | None:
        """Return what its tool wrote; None, and counted, for what says nothing or is of a kind we do not know."""
        counts = self._runtime.counts
        given, replaced = _split(metadata)
        text, old_text = storable(content, self._keep, counts), storable(replaced, self._keep, counts)
        if action not in ("add", "replace", "remove") or target not in ("memory", "user"):
            counts["memory_writes_unknown"] += 1
            return None
        if not (text or action == "remove") or not (old_text or action == "add"):
            counts["memory_writes_empty"] += 1
            return None
        self._runtime.mirror.note_written(target)
        every = self._fields(target, provenance | self._keep.metadata(given, counts))
        if action == "add":
            return AddMemory(**every, content=text)
        if action == "replace":
            return ReplaceMemory(**every, content=text, old_text=old_text)
        return RemoveMemory(**every, old_text=old_text)

    def _fields(self, target: str, metadata: dict[str, object]) -> dict[str, Any]:
        # Where it was said decides who may read it: there what `initialize` learned counts, whatever is given here.
        own = dict(self._context.scope) | {"source": "memory_tool"}
        return {
            "theme": self._context.place.memories.name,
            "at": time.time(),
            "target": target,
            "noted_at": self._runtime.mirror.now(),
            "origin": self._runtime.mirror.origin,
            "metadata": metadata | own,
        }


def _split(metadata: object) -> tuple[dict[str, object], object]:
    """Return the metadata that the host gave, and what it says of the text before."""
    given = dict(metadata) if isinstance(metadata, Mapping) else {}
    old_text = given.pop("old_text", None)
    return given, given.pop("previous_content", None) or old_text or ""
