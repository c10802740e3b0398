"""What the host's memory files lost, and nobody has decided about yet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from ...capture.mirror import Mirror
from ...domain.types import MEMORY_FILES
from ...store.connection import DeadlineConnection
from ...store.memory_files import WHY
from ..common.holdings import held_removals
from .check import Check, DoctorContext

_DECIDE = "put the file back; or hermes-pgvector removals list, then removals confirm ID... or removals dismiss ID..."


def check_removals(conn: DeadlineConnection, context: DoctorContext) -> Iterator[Check]:
    """Yield a line for each file whose removals wait, and for each of this home's that cannot be read."""
    mirror = Mirror(context.home)
    for name in MEMORY_FILES.values():
        path = context.home / "memories" / name
        try:
            path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as exc:
            yield Check(
                "memory files", "fail", f"{path} cannot be read: {exc.strerror or exc}", "let this user read it"
            )
    lost = held_removals(conn)
    for each in lost:
        own = each.origin == mirror.origin
        name = MEMORY_FILES[each.target] + ("" if own else " of another home")
        until = each.held_at.astimezone() + timedelta(days=context.settings.removal_hold_days)
        what = "1 memory it held stays" if each.count == 1 else f"{each.count:,} memories it held stay"
        yield Check(
            "memory files",
            "fail" if own else "note",
            f"{name} {WHY[each.held_why]}: {what}, and from {until:%Y-%m-%d %H:%M} on for good",
            _DECIDE,
        )
    if not lost:
        yield Check("memory files", "ok", "no removal waits for a decision")
