"""MEMORY.md and USER.md of every profile."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from ....capture.mirror import FileState, Mirror
from ....domain.records import MemoryRecord
from .source import ProfileFile, SourceTally


class MemoryFiles(ProfileFile):
    """The memory files of one profile. Their entries carry no times: they are as old as the file."""

    NAME = "memories"
    EXPECTED = "MEMORY.md and USER.md of hermes-agent in a folder `memories`"

    def total(self) -> int:
        """Return how many entries there are."""
        return sum(len(state.contents) for state in self._states())

    def records(self, tally: SourceTally) -> Iterator[MemoryRecord]:
        """Yield an entry each; a file that cannot be read is told in the log and has none."""
        for state in self._states():
            at = datetime.fromtimestamp(state.written_at, UTC)
            target = self.destination.of_memory({"agent_identity": self.home.profile})
            for content in state.contents:
                tally.read += 1
                if isinstance(target, str):
                    tally.skip(target)
                    continue
                metadata = {"source": "import:files", "profile": self.home.profile}
                yield MemoryRecord(target.files, state.target, content, at, at, metadata)

    def _states(self) -> list[FileState]:
        return [state for state in Mirror(self.home.path).changed() if state.contents]
