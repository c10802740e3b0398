"""Single variables written into the home's .env, where the host keeps secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ...config.sources import DOTENV_NAME, assignments
from ...domain.errors import ConfigurationError
from ...domain.files import read_regular_file
from .file_replacing import changing, replace_file

_BOM = "\ufeff"
_OWNER_ONLY = 0o600
_NOT_ONE_LINE = frozenset("\n\r\0")


def set_dotenv(home: Path, values: Mapping[str, str | None]) -> None:
    """Set variables, or remove those that are None.

    Other lines stay byte for byte. The file is replaced in one step and is then readable only by its owner. Raises
    ConfigurationError, with the file unchanged.
    """
    path = _path(home)
    for name, value in values.items():
        if _NOT_ONE_LINE.intersection(value or ""):
            raise ConfigurationError(f"{name} must be one line")
        if "${" in (value or ""):
            raise ConfigurationError(
                f"{name} holds ${{, which stands for a variable in {DOTENV_NAME}; in a DSN write a URI, and $ as %24"
            )
    try:
        with changing(path):
            text = (read_regular_file(path) if path.exists() else b"").decode(errors="surrogateescape")
            edited = _edited(text, values)
            if edited != text:
                replace_file(path, edited.encode(errors="surrogateescape"), mode=_OWNER_ONLY)
    except OSError as error:
        raise ConfigurationError(
            f"{path} was left as it is: it cannot be written ({error.strerror or error}); set there by hand: "
            + ", ".join(values)
        ) from error


def _path(home: Path) -> Path:
    # A symlink is kept: the file it points to is replaced.
    return Path(os.path.realpath(home / DOTENV_NAME))


def _edited(text: str, values: Mapping[str, str | None]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    left = dict(values)
    pieces = [_BOM] * text.startswith(_BOM)
    for name, _, written in assignments(text.removeprefix(_BOM)):
        if name in values:
            # An assignment's text begins with the blank lines above it.
            above = written[: len(written) - len(written.lstrip())].rpartition("\n")
            written = "".join(above[:2]) + _line(name, left.pop(name, None), newline)
        pieces.append(written)
    kept = "".join(pieces)
    added = "".join(_line(name, value, newline) for name, value in left.items())
    edited = kept + (newline if added and kept and not kept.endswith("\n") else "") + added
    # Agents take an empty file for one that is about to be written, and go on with what it said.
    return edited or newline * bool(text)


def _line(name: str, value: str | None, newline: str) -> str:
    return "" if value is None else f"{name}={_quoted(value)}{newline}"


def _quoted(value: str) -> str:
    """Return a value as the host quotes it, so that both read the same."""
    if value and value == value.strip() and not any(each in "#\"'" or each.isspace() for each in value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if value else ""
