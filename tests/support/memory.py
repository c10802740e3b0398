"""What tests do to a provider as the host would, and what its user then sees."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from hermes_memory_pgvector.capture.spool_format import RejectedWrite
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import Runtime

from .limits import LANDED_TIMEOUT_S

DELIMITER = "\n§\n"


def runtime_of(provider: PgvectorMemoryProvider) -> Runtime:
    """The runtime of an initialised provider."""
    assert provider.runtime is not None, "the provider is not initialised"
    return provider.runtime


def landed(provider: PgvectorMemoryProvider) -> None:
    """Returns when everything the provider accepted is in Postgres."""
    assert runtime_of(provider).writer.flush(LANDED_TIMEOUT_S), "writes did not reach Postgres"


def rejected_writes(provider: PgvectorMemoryProvider) -> list[RejectedWrite]:
    """The writes accepted by the provider's process that Postgres rejected for their content."""
    return [write for spool in runtime_of(provider).writer._own.spools() for write in spool.rejected()]


def called(provider: PgvectorMemoryProvider, tool: str, args: Any) -> dict[str, Any]:
    """The answer of a tool call."""
    answer = json.loads(provider.handle_tool_call(tool, args))
    assert isinstance(answer, dict)
    return answer


def results(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of a recall tool, each with what all of them share."""
    shared = {name: answer[name] for name in ("theme", "session_id") if name in answer}
    return [shared | result for result in answer["results"]]


def recalled(provider: PgvectorMemoryProvider, query: str, *, tool: str = "recall_memory", **args: object) -> list[str]:
    """The texts a tool call returns, best first."""
    answer = called(provider, tool, {"query": query, "limit": 50} | args)
    assert "error" not in answer, answer["error"]
    return [hit["content"] for hit in answer["results"]]


def write_entries(home: Path, *entries: str, file: str = "MEMORY.md", age_s: float = 0.0) -> Path:
    """Write one of the host's memory files as the host does, last changed `age_s` seconds ago."""
    path = home / "memories" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(DELIMITER.join(entries), encoding="utf-8")
    changed = time.time() - age_s
    os.utime(path, (changed, changed))
    return path


def knowing(provider: PgvectorMemoryProvider, *memories: str, said: tuple[str, str]) -> PgvectorMemoryProvider:
    """A provider whose theme holds these memories and one exchange, all of it stored."""
    for text in memories:
        provider.on_memory_write("add", "memory", text)
    provider.sync_turn(*said)
    landed(provider)
    return provider
