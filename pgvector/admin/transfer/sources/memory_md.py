"""MEMORY.md and USER.md of every profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from ....capture.mirror import Mirror, read_in
from ....domain.text import digest
from ..records import MemoryRecord, NotedEntry
from .source import ProfileFile, SourceTally

_ELSEWHERE = "an entry that a session of another theme wrote (--theme NAME takes them in)"


class MemoryFiles(ProfileFile):
    """The memory files of one profile. Entries have no times of their own: they count as old as the file."""

    NAME = "memories"
    EXPECTED = "MEMORY.md and USER.md of hermes-agent in a folder `memories`"

    def total(self) -> int:
        """Return how many entries there are."""
        return sum(len(state.contents) for state in read_in(self.home.path)[0])

    def records(self, tally: SourceTally) -> Iterator[MemoryRecord]:
        """Yield a memory for each entry; a file that cannot be read yields none, and has failed."""
        target = self.destination.of_memory({"agent_identity": self.home.profile})
        noted = self._noted("" if isinstance(target, str) else target.files)
        states, unreadable = read_in(self.home.path)
        tally.failed.update({str(path): why for path, why in unreadable.items()})
        for state in states:
            written = datetime.fromtimestamp(state.written_at, UTC)
            for content in state.contents:
                tally.read += 1
                seen = noted.get((state.target, digest(self.destination.stored_text(content))))
                if isinstance(target, str):
                    tally.skip(target)
                    continue
                if seen is not None and seen.elsewhere and not self.destination.theme:
                    tally.skip(_ELSEWHERE)
                    continue
                # Other entries may have changed the file since, so this entry may date from before its removal here.
                at = written if seen is None else min(written, seen.noted_at)
                metadata = {"source": "import:files", "profile": self.home.profile}
                own = target.files == target.session.place.files.name
                yield MemoryRecord(target.files, state.target, content, at, at, metadata, in_file=own)

    def _noted(self, theme: str) -> Mapping[tuple[str, bytes], NotedEntry]:
        """Return what earlier reads recorded of the entries. `theme`: the theme that the files' entries go to."""
        if not (self.home.path / "pgvector" / "origin").is_file():
            return {}
        return self.destination.noted_entries(Mirror(self.home.path).origin, theme)
