"""What an agent that is gone has left in the spool."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path

from hermes_memory_pgvector.capture.spool import Spool
from hermes_memory_pgvector.domain.types import Operation


def leave_spool(home: Path, operations: Iterable[Operation]) -> None:
    """The file of a process that is gone."""
    folder = home / "pgvector" / "spool"
    folder.mkdir(parents=True, exist_ok=True)
    spool = Spool(folder / f"4000000-{uuid.uuid4().hex[:8]}.db", max_bytes=1 << 30)
    for operation in operations:
        spool.append(operation)
    spool.close()
