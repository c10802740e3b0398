"""A private output file that appears under its name only when it is complete, compressed if the name ends in .gz."""

from __future__ import annotations

import contextlib
import glob
import gzip
import io
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from ...domain.errors import ConfigurationError
from ...domain.files import name_new
from ...server.locks import is_free, try_exclusive

_MADE_WITHIN_S = 60.0


class ByteSink(Protocol):
    """A binary stream to write to."""

    def write(self, data: bytes, /) -> int: ...
    def flush(self) -> None: ...


@contextlib.contextmanager
def private_output(path: Path, *, replace: bool = False) -> Iterator[ByteSink]:
    """Yield a file that only this user can read; it gets its name when the block succeeds, and is deleted otherwise.

    A file whose name ends in .gz is compressed. Raises ConfigurationError if it exists, unless it may be replaced, or
    cannot be written.
    """
    if not replace and os.path.lexists(path):
        raise ConfigurationError(f"{path} exists; name a new file, or have it replaced by --replace")
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{path} is no regular file, and is not replaced; leave FILE out to write to stdout")
    _forget_unfinished(path)
    with _explained(path):
        handle, made = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        _hold(handle)
    with _explained(path), _removed_at_the_end(made):
        with os.fdopen(handle, "wb") as raw:
            with _compressed(raw) if path.suffix == ".gz" else contextlib.nullcontext(raw) as out:
                yield out
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(made, path) if replace else name_new(Path(made), path)


def _forget_unfinished(path: Path) -> None:
    """Delete what exports to this name left that were killed: it holds texts that may have been removed since."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with contextlib.suppress(OSError):
            # A moment old, it may be one that is not held yet.
            if time.time() - part.stat().st_mtime > _MADE_WITHIN_S and is_free(part):
                part.unlink()


def _hold(handle: int) -> None:
    """Show other exports that somebody writes this file."""
    with contextlib.suppress(OSError):  # a file system without locks
        try_exclusive(handle)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a ConfigurationError."""
    try:
        yield
    except FileExistsError as exc:
        raise ConfigurationError(f"{path} exists meanwhile; name a new file") from exc
    except OSError as exc:
        raise ConfigurationError(f"{path} cannot be written: {exc.strerror or exc}") from exc


@contextlib.contextmanager
def _removed_at_the_end(made: str) -> Iterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(made)


def _compressed(raw: io.BufferedWriter) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, filename="", mtime=0)
