"""Reading our part of $HERMES_HOME/config.yaml and .env, and what the desktop's form saved."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from .settings import ENV_PREFIX
from .yaml_edit import CONFIG_NAME, replace_file, set_values, yaml_place

__all__ = ["CONFIG_NAME", "DOTENV_NAME", "forget_form", "read_dotenv", "read_form", "read_section", "set_values"]

DOTENV_NAME: Final = ".env"

_T = TypeVar("_T")
_Stamp = tuple[int, int, int]
_sections: dict[str, tuple[_Stamp, tuple[object, list[str]]]] = {}
_dotenvs: dict[str, tuple[_Stamp, dict[str, str]]] = {}
_forms: dict[str, tuple[_Stamp, dict[str, object]]] = {}

_ASSIGNMENT = re.compile(rf"\s*(?:export\s+)?({ENV_PREFIX}\w+)\s*=\s*(.*)", re.ASCII)
_DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SINGLE_QUOTED = re.compile(r"'((?:[^'\\]|\\['\\]|\\)*?)'")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


def read_section(home: Path) -> tuple[object, list[str]]:
    """What `plugins.pgvector` holds in the home's config.yaml, and what is wrong with that file.

    The section is None when there is none or the file cannot be read; only in the latter case there is a warning, in
    which no text of the file stands. The section is shared between callers and must not be changed. Unchanged files
    are not read again.
    """
    section, warnings = _cached(home / CONFIG_NAME, _sections, _parse_config, lambda why: (None, [why])) or (None, [])
    return section, list(warnings)


def read_dotenv(home: Path) -> dict[str, str]:
    """The HERMES_PGVECTOR_* assignments of the home's .env; empty when it cannot be read.

    Unchanged files are not read again.
    """
    found: dict[str, str] | None = _cached(home / DOTENV_NAME, _dotenvs, _parse_dotenv, lambda why: {})
    return dict(found or {})


def form_path(home: Path) -> Path:
    """Where the host keeps what its desktop's form saved for us."""
    return home / "pgvector" / "config.json"


def read_form(home: Path) -> dict[str, object]:
    """What the desktop's form saved; empty when it saved nothing, or that cannot be read.

    Unchanged files are not read again.
    """
    found: dict[str, object] | None = _cached(form_path(home), _forms, _parse_form, lambda why: {})
    return dict(found or {})


def forget_form(home: Path, keys: Iterable[str]) -> None:
    """Drop settings from what the form saved, so that what config.yaml says of them counts. Raises OSError."""
    known = read_form(home)
    if left := {key: value for key, value in known.items() if key not in set(keys)}:
        if left != known:
            replace_file(form_path(home), (json.dumps(left, indent=2) + "\n").encode())
    elif known:
        form_path(home).unlink(missing_ok=True)


def _cached(
    path: Path,
    cache: dict[str, tuple[_Stamp, _T]],
    parse: Callable[[Path, bytes], _T],
    unreadable: Callable[[str], _T],
) -> _T | None:
    """The parsed file, from `cache` while its time, size and inode are the same; None when there is no such file."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        return unreadable(_cannot_read(path, error))
    stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
    key = os.fspath(path)
    known = cache.get(key)
    if known is not None and known[0] == stamp:
        return known[1]
    try:
        raw = path.read_bytes()
    except OSError as error:
        return unreadable(_cannot_read(path, error))
    parsed = parse(path, raw)
    # A file that was written while we read it has another stamp by now, so what we keep is never stale for long.
    cache[key] = (stamp, parsed)
    return parsed


def _cannot_read(path: Path, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    return f"{path} cannot be read ({reason}); settings from it are not used"


def _parse_config(path: Path, raw: bytes) -> tuple[object, list[str]]:
    try:
        import yaml
    except ModuleNotFoundError:
        return None, [f"{path} cannot be read without PyYAML; run `pip install PyYAML`"]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        config = yaml.load(raw.decode("utf-8-sig"), Loader=loader)
    except yaml.YAMLError as error:
        return None, [f"{path} is not valid YAML{yaml_place(error)}; settings from it are not used until that is fixed"]
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return None, [f"{path} is not UTF-8 text (line {line}); settings from it are not used until that is fixed"]
    except (ValueError, OverflowError, RecursionError) as error:
        return None, [
            f"{path} holds a value that cannot be read ({type(error).__name__}); settings from it are not used"
        ]
    level, at = config, "the file"
    for name in ("plugins", "pgvector"):
        if level is None:
            return None, []
        if not isinstance(level, dict):
            return None, [f"{path}: {at} must be a mapping of names to values; settings from it are not used"]
        level, at = level.get(name), name
    return level, []


def _parse_form(path: Path, raw: bytes) -> dict[str, object]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return {key: value for key, value in found.items() if isinstance(key, str)} if isinstance(found, dict) else {}


def _parse_dotenv(path: Path, raw: bytes) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in raw.decode("utf-8-sig", "replace").splitlines():
        assignment = _ASSIGNMENT.fullmatch(line)
        if assignment:
            values[assignment.group(1)] = _unquote(assignment.group(2))
    return values


def _unquote(text: str) -> str:
    if text.startswith('"') and (quoted := _DOUBLE_QUOTED.match(text)):
        return re.sub(r"\\(.)", lambda escaped: _ESCAPES.get(escaped.group(1), escaped.group(1)), quoted.group(1))
    if text.startswith("'") and (quoted := _SINGLE_QUOTED.match(text)):
        return re.sub(r"\\(['\\])", r"\1", quoted.group(1))
    return re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip()
