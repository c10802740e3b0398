"""Setting single variables in the home's .env, where the host keeps secrets, without touching the rest of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ..domain.errors import ConfigurationError
from .sources import DOTENV_NAME
from .yaml_edit import replace_file

_BOM = b"\xef\xbb\xbf"
_OWNER_ONLY = 0o600


def set_dotenv(home: Path, values: Mapping[str, str | None]) -> bytes | None:
    """Set variables, or with None remove them; returns what the file held before, None where there was none.

    Other lines stay byte for byte. The file is replaced in one step and afterwards is its owner's alone. Raises
    ConfigurationError, with the file as it was.
    """
    path = _path(home)
    for name, value in values.items():
        if value is not None and ("\n" in value or "\r" in value or "\0" in value):
            raise ConfigurationError(f"{name} must be one line")
    try:
        before = path.read_bytes() if path.exists() else None
        edited = _edited(before or b"", values)
        if edited != (before or b""):
            replace_file(path, edited, mode=_OWNER_ONLY)
    except OSError as error:
        raise ConfigurationError(
            f"{path} was left as it is: it cannot be written ({error.strerror or error}); set there by hand: "
            + ", ".join(values)
        ) from error
    return before


def restore_dotenv(home: Path, before: bytes | None) -> None:
    """Put back what `set_dotenv` found. Raises OSError."""
    path = _path(home)
    if before is None:
        path.unlink(missing_ok=True)
    else:
        replace_file(path, before, mode=_OWNER_ONLY)


def _path(home: Path) -> Path:
    # A link stays a link: what it points at is replaced.
    return Path(os.path.realpath(home / DOTENV_NAME))


def _edited(text: bytes, values: Mapping[str, str | None]) -> bytes:
    bom = _BOM if text.startswith(_BOM) else b""
    lines = text[len(bom) :].splitlines(keepends=True)
    newline = b"\r\n" if lines and lines[0].endswith(b"\r\n") else b"\n"
    for name, value in values.items():
        assigns = re.compile(rb"\s*(?:export\s+)?" + re.escape(name.encode()) + rb"\s*=")
        found = [number for number, line in enumerate(lines) if assigns.match(line)]
        if value is not None:
            line = f"{name}={_quoted(value)}".encode() + newline
            if found:
                lines[found.pop(0)] = line
            else:
                if lines and not lines[-1].endswith(b"\n"):
                    lines[-1] += newline
                lines.append(line)
        for number in reversed(found):
            del lines[number]
    return bom + b"".join(lines)


def _quoted(value: str) -> str:
    """As the host quotes it, so that both read the same."""
    if value and value == value.strip() and not any(each in "#\"'" or each.isspace() for each in value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if value else ""
