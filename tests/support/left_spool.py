"""What an agent that is gone has left in the spool."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hermes_memory_pgvector.capture.spool import Spool
from hermes_memory_pgvector.domain.operations import Operation, decode


def operation(
    kind: str, theme: str, payload: Mapping[str, Any], at: float, op_id: uuid.UUID | None = None
) -> Operation:
    """The write of a kind and payload as a file holds them, which may be none that a hook makes."""
    return decode(kind, payload, {"theme": theme, "at": at, "op_id": op_id or uuid.uuid4(), "seq": 0})


def leave_spool(home: Path, operations: Iterable[Operation]) -> Path:
    """The file of a process that is gone.

    It is written elsewhere: agents that run take a file of that name for one that nobody writes any more.
    """
    folder, elsewhere = home / "pgvector" / "spool", home / "pgvector" / "written"
    for each in (folder, elsewhere):
        each.mkdir(parents=True, exist_ok=True)
    spool = Spool(elsewhere / f"4000000-{uuid.uuid4().hex[:8]}.db", max_bytes=1 << 30)
    for write in operations:
        spool.append(write)
    spool.close()
    for file in sorted(elsewhere.glob(f"{spool.path.name}*"), reverse=True):  # the database last
        file.rename(folder / file.name)
    elsewhere.rmdir()
    return folder / spool.path.name
