"""MEMORY.md and USER.md of every profile."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from ....capture.mirror import FileState, Mirror
from ..records import MemoryRecord
from .homes import Home
from .source import ImportDestination, SourceTally


class MemoryFiles:
    """The memory files of one profile. Their entries carry no times: they are as old as the file."""

    def __init__(self, home: Home, destination: ImportDestination) -> None:
        self._home = home
        self._destination = destination

    @property
    def where(self) -> str:
        """Return the folder of the files."""
        return str(self._home.path / "memories")

    def total(self) -> int:
        """Return how many entries there are."""
        return sum(len(state.contents) for state in self._states())

    def records(self, tally: SourceTally) -> Iterator[MemoryRecord]:
        """Yield an entry each; a file that cannot be read is told in the log and has none."""
        for state in self._states():
            at = datetime.fromtimestamp(state.written_at, UTC)
            target = self._destination.of_memory({"agent_identity": self._home.profile})
            for content in state.contents:
                tally.read += 1
                if isinstance(target, str):
                    tally.skip(target)
                    continue
                metadata = {"source": "import:files", "profile": self._home.profile}
                yield MemoryRecord(target.files, state.target, content, at, at, metadata)

    def _states(self) -> list[FileState]:
        return [state for state in Mirror(self._home.path).changed() if state.contents]
