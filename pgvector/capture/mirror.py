"""Reads the host's own memory files, MEMORY.md and USER.md, which change without the host telling us."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..domain.text import clean

logger = logging.getLogger(__name__)

DELIMITER = "\n§\n"  # what the host puts between entries
_FILES = {"memory": "MEMORY.md", "user": "USER.md"}
_Signature = tuple[int, int] | None


@dataclass(frozen=True)
class FileState:
    """The entries of one file, and when it was written (seconds since the epoch)."""

    target: str
    contents: tuple[str, ...]
    written_at: float


class Mirror:
    """The memory files of one home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._seen: dict[str, _Signature] = {}
        self._unreadable: dict[str, str] = {}

    @cached_property
    def origin(self) -> str:
        """What tells this home on this host from every other. A fresh home is another origin, so it removes nothing."""
        where = hashlib.sha256(f"{socket.gethostname()}\0{self._home.resolve()}".encode(errors="replace")).hexdigest()[
            :12
        ]
        marker = self._home / "pgvector" / "origin"
        try:
            marker.parent.mkdir(parents=True, exist_ok=True)
            try:
                handle = os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                pass
            else:
                with os.fdopen(handle, "w") as file:
                    file.write(uuid.uuid4().hex)
            return f"{marker.read_text()[:32]}:{where}"
        except OSError:
            return f":{where}"

    def changed(self) -> list[FileState]:
        """The files that changed since the last call, at the first call all of them."""
        folder = self._home / "memories"
        if not folder.is_dir():
            return []
        states = []
        for target, name in _FILES.items():
            path = folder / name
            try:
                signature = _signature(path)
                if target in self._seen and self._seen[target] == signature:
                    continue
                states.append(_read(target, path, signature))
                self._seen[target] = signature
                self._unreadable.pop(target, None)
            except OSError as exc:
                why = exc.strerror or str(exc)
                if self._unreadable.get(target) != why:
                    self._unreadable[target] = why
                    logger.warning(
                        "hermes-pgvector: %s cannot be read and is not mirrored: %s; let this user read it", path, why
                    )
        return states

    def entries(self) -> set[tuple[str, str]]:
        """Target and text of every entry that stands in the files now; of a file that cannot be read none."""
        found: set[tuple[str, str]] = set()
        for target, name in _FILES.items():
            path = self._home / "memories" / name
            with contextlib.suppress(OSError):
                found |= {(target, content) for content in _read(target, path, _signature(path)).contents}
        return found


def _signature(path: Path) -> _Signature:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _read(target: str, path: Path, signature: _Signature) -> FileState:
    if signature is None:
        return FileState(target, (), 0.0)
    text = path.read_text(encoding="utf-8", errors="replace")
    entries = (clean(part).strip() for part in text.split(DELIMITER))
    return FileState(target, tuple(dict.fromkeys(entry for entry in entries if entry)), signature[0] / 1e9)
