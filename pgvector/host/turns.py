"""A finished turn, as an operation for the writer."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..capture.sanitize import Keeper
from ..capture.turn_filter import TurnFilter, own_words
from ..domain.operations import Message, StoreTurn
from ..domain.text import named_uuid, strip_injected
from .input_limits import taken

_NAMESPACE = uuid.UUID("6f6b3c1e-53c7-4c7e-9a4e-0c1f6f2a9a10")


@dataclass(frozen=True, slots=True)
class Turn:
    """Where a turn was said (theme and session), what is kept beside it, and what of it is worth keeping."""

    place: tuple[str, str]
    provenance: Mapping[str, str]
    keep: Keeper
    min_chars: int

    def operation(self, user: Any, assistant: Any, counts: Counter[str], generation: str) -> StoreTurn | None:
        """Return the write of what both said; None, and counted, where nothing of it is worth keeping.

        `generation` tells what is said again after it was taken back from what the host reports twice.
        """
        asked = own_words(strip_injected(taken(user, self.keep.max_chars, counts)))
        answered = strip_injected(taken(assistant, self.keep.max_chars, counts))
        verdict = TurnFilter(self.min_chars).judge(asked, answered)
        asked, answered = (self.keep.text(text, counts) for text in (asked, answered))
        sides = (("user", asked, verdict.store_user), ("assistant", answered, verdict.store_assistant))
        said = tuple(Message(role, content) for role, content, stored in sides if stored)
        if not said:
            counts[f"turns_skipped_{verdict.reason}"] += 1
            return None
        # The host may report a turn again, after a reconnect or a compression: its words and session name it.
        names = (*self.place, asked, answered, generation)
        op_id = named_uuid(_NAMESPACE, "\0".join(names).removesuffix("\0"))
        theme, session = self.place
        return StoreTurn(
            theme=theme, at=time.time(), op_id=op_id, session_id=session, messages=said, metadata=self.provenance
        )
