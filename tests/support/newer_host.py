"""The memory interface of hosts newer than 0.19.0: names and parameters as facts, and the calls such a host makes.

Written from what the host's sources of 2026 declare; none of their code is here. A host hands an optional argument only
to a hook whose signature takes it, which `handed` imitates.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

# Every hook with the parameters that the host passes by these names or in this order; those after "*" by name only.
HOOKS: Mapping[str, tuple[str, ...]] = {
    "is_available": (),
    "unavailable_reason": (),
    "initialize": ("session_id",),
    "initialize_for_inspection": ("session_id",),
    "system_prompt_block": (),
    "on_turn_start": ("turn_number", "message", "*", "author_id", "author_name", "author_is_bot"),
    "prefetch": ("query", "*", "session_id"),
    "recall_status": (),
    "queue_prefetch": ("query", "*", "session_id"),
    "sync_turn": ("user_content", "assistant_content", "*", "session_id", "messages", "turn_author"),
    "get_tool_schemas": (),
    "handle_tool_call": ("tool_name", "args"),
    "shutdown": (),
    "on_session_end": ("messages",),
    "on_session_switch": ("new_session_id", "*", "parent_session_id", "reset", "rewound", "reason"),
    "on_pre_compress": ("messages", "*", "require_checkpoint"),
    "on_delegation": ("task", "result", "*", "child_session_id"),
    "on_memory_write": ("action", "target", "content", "metadata"),
    "get_config_schema": (),
    "save_config": ("values", "hermes_home"),
    "backup_paths": (),
}
# What a provider says of itself: the version of the contract by which a compression may wait for `on_pre_compress`.
# 1 promises nothing; from 2 on a host may refuse to compress before the whole transcript is stored.
CHECKPOINT_ATTRIBUTE = "pre_compress_checkpoint_api_version"
# What is read of an answer of `recall_status`, beside None.
RECALL_STATUS = ("provider_label", "count", "glyph")
# A prefetch longer than this is written to a file, of which the message gets the beginning.
PREFETCH_SPILLS_CHARS = 10_000


def handed(hook: Callable[..., Any], optional: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `optional` that a host hands to a hook, by its signature."""
    parameters = inspect.signature(hook).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return dict(optional)
    return {name: value for name, value in optional.items() if name in parameters}


def recall_line(provider: Any) -> str:
    """What the host's user reads after a prefetch; "" when nothing was put before the message."""
    status = provider.recall_status()
    return "" if status is None else f"{status.glyph} {status.provider_label}: {status.count}"
