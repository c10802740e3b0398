"""What $HERMES_HOME/config.yaml, .env and the desktop's saved form say about this plugin."""

from __future__ import annotations

import errno
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from ..domain.files import is_utf16, read_regular_file
from ..domain.patterns import late_pattern
from .near_names import Misplaced, misplaced_settings
from .settings import ENV_PREFIX, FIELDS

PROVIDER: Final = "pgvector"
CONFIG_NAME: Final = "config.yaml"
DOTENV_NAME: Final = ".env"

_T = TypeVar("_T")
# What each file contained, and its time, size and inode then.
_cache: dict[str, tuple[tuple[int, int, int], Any]] = {}

# A duplicate of one of these could mean another database than the intended one, or more deleted.
_DECISIVE = ("dsn", "read_dsn", "embedded_dir", "retention")
_LISTS = frozenset(field.key for field in FIELDS if field.kind is tuple)
_YAML_TAG = "tag:yaml.org,2002:"
_REFERENCE = late_pattern(r"\$\{([^}:]*)(?::-([^}]*))?\}")
# At the beginning of a line, in any case, also after a shell's word for it.
_MEANT = late_pattern(
    r"\s*(?:[\w$-]{1,8}[ :]\s*)?['\"]?(HERMES[_-]PGVECTOR[_-][A-Z0-9_-]*\w)", re.ASCII | re.IGNORECASE
)
_ASSIGNED = late_pattern(r"\s*(?:export\s+)?(\w+)\s*=(.*)", re.ASCII | re.DOTALL)


def read_section(home: Path) -> tuple[object, list[str]]:
    """Return the section `plugins.pgvector` of the home's config.yaml, and what is wrong with that file.

    The section is None if there is none or the file cannot be read; only in the latter case there is a warning, which
    quotes no text of the file. The section is shared between callers and must not be changed. If the file is missing or
    empty, it is the one that this process read before: many programs empty a file before they write it.
    """
    path = home / CONFIG_NAME
    try:
        config, problem = _config(path)
    except (OSError, ValueError) as error:
        return None, [_illegible(path, error)]
    level, at = config, "the file"
    for name in ("plugins", "pgvector"):
        if level is not None and not isinstance(level, dict):
            return None, [f"{path}: {at} must be a mapping of names to values; settings from it are not used"]
        level, at = (level or {}).get(name), name
    return level, [problem] if problem else []


def misplaced_section(home: Path) -> Misplaced | None:
    """Return where a config.yaml holds, outside of `plugins.pgvector`, settings that were meant to be in there."""
    with suppress(OSError, ValueError):
        return misplaced_settings(_config(home / CONFIG_NAME)[0])
    return None


def read_timezone(home: Path) -> str:
    """Return the host's `timezone` in the home's config.yaml; empty if there is none, or the file cannot be read."""
    with suppress(OSError, ValueError):
        config, _ = _config(home / CONFIG_NAME)
        named = config.get("timezone") if isinstance(config, dict) else None
        return named.strip() if isinstance(named, str) else ""
    return ""


def _config(path: Path) -> tuple[object, str]:
    """Return what a config.yaml contains, and what is wrong with it. Raises OSError and ValueError."""
    return read_cached(path, partial(_parse_config, path), lasts=True) or (None, "")


def read_dotenv(home: Path, prefix: str = ENV_PREFIX, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of the home's .env whose names begin with `prefix`; empty if it cannot be read.

    If the file is missing or empty, they are those that this process read before. As the host does, a value takes in
    those of the lines above it, and of `environ` (default: the process's own), that it names by ${NAME}.
    """
    found: dict[str, str] = {}
    known = os.environ if environ is None else environ
    with suppress(OSError, ValueError):
        for name, value in _dotenv(home).assigned:
            found[name] = _filled_in(value, {**known, **found}) if "${" in value else value
    return {name: value for name, value in found.items() if name.startswith(prefix)}


def _filled_in(text: str, variables: Mapping[str, str]) -> str:
    """Return a text with ${NAME} and ${NAME:-otherwise} replaced; a name that stands for nothing stays as written."""
    return _REFERENCE.sub(lambda found: variables.get(found[1], found[0] if found[2] is None else found[2]), text)


def dotenv_problem(home: Path) -> str:
    """Return why the home's .env, which may name the database, cannot be read; "" if it can, or there is none."""
    path = home / DOTENV_NAME
    try:
        _dotenv(home)
    except (OSError, ValueError) as error:
        return _illegible(path, error)
    return ""


def unread_in_dotenv(home: Path) -> tuple[str, ...]:
    """Return the variables of ours that lines of the home's .env name, but do not set; none if it cannot be read."""
    with suppress(OSError, ValueError):
        return _dotenv(home).unread
    return ()


def _dotenv(home: Path) -> _DotEnv:
    return read_cached(home / DOTENV_NAME, _parse_dotenv, lasts=True) or _DotEnv((), ())


def _illegible(path: Path, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    return f"{path} cannot be read ({reason}); settings from it are not used"


def form_path(home: Path) -> Path:
    """Return the path of the file in which the host saves its desktop's form for us."""
    return home / "pgvector" / "config.json"


def read_form(home: Path) -> dict[str, object]:
    """Return what the desktop's form saved; empty if it saved nothing, or the file cannot be read."""
    with suppress(OSError, ValueError):
        return dict(read_cached(form_path(home), _parse_form) or {})
    return {}


def read_cached(path: Path, parse: Callable[[bytes], _T], *, lasts: bool = False) -> _T | None:
    """Return a file of the home, parsed, from the cache while it is unchanged; None if there is none.

    With `lasts`, a missing or empty file is taken as it was. Raises OSError, also for a link that leads nowhere, as to
    a volume that is not mounted; ValueError for an impossible path.
    """
    key = os.fspath(path)
    known = _cache.get(key)
    try:
        found = os.stat(path)
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if known is None or known[0] != stamp:
            raw = read_regular_file(path)
            # A file written while we read it has another stamp by now, so the cache is never stale for long.
            if raw or known is None or not lasts:
                known = _cache[key] = (stamp, parse(raw))
    except (FileNotFoundError, NotADirectoryError):
        known = known if lasts else None
        if known is None and path.is_symlink():
            raise OSError(errno.ENOENT, "it is a link that leads nowhere") from None
    value: _T | None = None if known is None else known[1]
    return value


def _parse_config(path: Path, raw: bytes) -> tuple[object, str]:
    """Return what the file contains, and what is wrong with it; then its content is None."""
    try:
        import yaml
    except ModuleNotFoundError:
        return None, f"{path} cannot be read without PyYAML; run `pip install PyYAML`"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        document = loader(raw.decode("utf-8-sig"))
        try:
            node = document.get_single_node()
            twice = _named_twice(node)  # before aliases are merged in
            _keep_words_of_lists(node)
            config = None if node is None else document.construct_document(node)
        finally:
            document.dispose()
        if twice:
            return None, f"{path}: {twice}; settings from it are not used until one of them is taken out"
    except yaml.YAMLError as error:
        return None, f"{path} is not valid YAML{yaml_place(error)}; settings from it are not used until that is fixed"
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return None, f"{path} is not UTF-8 text (line {line}); settings from it are not used until that is fixed"
    except (ValueError, OverflowError, RecursionError) as error:
        return None, f"{path} holds a value that cannot be read ({type(error).__name__}); settings from it are not used"
    return config, ""


def _named_twice(node: Any) -> str:
    """Return which name that decides on the database occurs twice on the path to our settings; "" if none does.

    YAML silently takes the last one.
    """
    for level, decisive in (("", ("plugins",)), ("plugins.", ("pgvector",)), ("plugins.pgvector.", _DECISIVE)):
        values: dict[str, Any] = {}
        for key, value in _pairs(node):
            if key.value in values and key.value in decisive:
                return f"{level}{key.value} stands in it twice, the second time in line {key.start_mark.line + 1}"
            values[key.value] = value
        node = values.get(decisive[0])
    return ""


def _keep_words_of_lists(node: Any) -> None:
    """Apply `keep_words` to each setting that is a list."""
    for name in ("plugins", "pgvector"):
        found = [value for key, value in _pairs(node) if key.value == name]
        node = found[-1] if found else None
    for key, value in _pairs(node):
        if key.value in _LISTS:
            keep_words(value)


def _pairs(node: Any) -> list[tuple[Any, Any]]:
    """Return the keys and values of a mapping whose keys are names; nothing for any other node."""
    named = node.value if getattr(node, "id", "") == "mapping" else ()
    return [(key, value) for key, value in named if isinstance(key.value, str)]


def keep_words(node: Any) -> None:
    """Make YAML read a node's words that look like true, false or a date as the text that is written.

    `no` may be a Norwegian's theme. Numbers are left to YAML: names that it has made of them are in use.
    """
    for each in () if node.id == "scalar" else node.value:
        for item in each if isinstance(each, tuple) else (each,):
            if item.id == "scalar" and item.tag in (f"{_YAML_TAG}bool", f"{_YAML_TAG}timestamp"):
                item.tag = f"{_YAML_TAG}str"


def _parse_form(raw: bytes) -> dict[str, object]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return {key: value for key, value in found.items() if isinstance(key, str)} if isinstance(found, dict) else {}


class Assignment(NamedTuple):
    """A piece of a .env file: an assignment, or with an empty `name` comments and blank lines."""

    name: str
    value: str
    written: str


def assignments(text: str) -> Iterator[Assignment]:
    """Yield the pieces of a .env file as the host reads it; an assignment that it cannot read keeps its raw value.

    Dropping such an assignment could mean another database than the one that was named.
    """
    from dotenv.parser import parse_stream

    for binding in parse_stream(io.StringIO(text, newline="")):
        written = binding.original.string
        if binding.error and (found := _ASSIGNED.match(written)):
            yield Assignment(found[1], found[2].strip(), written)
        else:
            yield Assignment(binding.key or "" if binding.value is not None else "", binding.value or "", written)


class _DotEnv(NamedTuple):
    """The variables that a .env file sets, and those of ours that a line only names, as `NAME: value` does."""

    assigned: tuple[tuple[str, str], ...]
    unread: tuple[str, ...]


def _parse_dotenv(raw: bytes) -> _DotEnv:
    if is_utf16(raw):
        raise ValueError("it is not UTF-8 but UTF-16")
    found = tuple(assignments(raw.decode("utf-8-sig", "replace")))
    other = [each.written for each in found if not (each.name.startswith(ENV_PREFIX) and each.name.isidentifier())]
    named = {match[1].upper().replace("-", "_") for match in map(_MEANT.match, other) if match is not None}
    return _DotEnv(tuple((each.name, each.value) for each in found if each.name), tuple(sorted(named)))


def yaml_place(error: Exception) -> str:
    """Return where and what a YAML error is, without quoting the file, which may contain passwords."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = f" (line {mark.line + 1})" if mark is not None else ""
    problem = getattr(error, "problem", None)
    # Problems that quote a whole token could quote a password; those about one character or none cannot.
    return f"{where}: {problem}" if isinstance(problem, str) and not re.search(r"['\"][^'\"]{2,}", problem) else where


def is_active(hermes_home: Path) -> bool:
    """Return whether the home's configuration names this plugin; False when it cannot be read."""
    return at(host_config(hermes_home), "memory", "provider") == PROVIDER


def is_enabled(hermes_home: Path) -> bool:
    """Return whether the host loads this plugin at start-up; False when the configuration cannot be read."""
    enabled = at(host_config(hermes_home), "plugins", "enabled")
    return isinstance(enabled, list) and PROVIDER in enabled and not is_disabled(hermes_home)


def is_disabled(hermes_home: Path) -> bool:
    """Return whether somebody has forbidden the host's plugin manager to load this plugin."""
    disabled = at(host_config(hermes_home), "plugins", "disabled")
    return isinstance(disabled, list) and PROVIDER in disabled


def host_config(hermes_home: Path) -> object:
    """Return the home's whole configuration; None when it cannot be read."""
    return _whole(hermes_home)[0]


def is_legible(hermes_home: Path) -> bool:
    """Return False if the home's configuration has contents that cannot be read, and rewriting it would lose them."""
    config, problem = _whole(hermes_home)
    if isinstance(problem, FileNotFoundError):
        return True
    return problem is None and (config is None or isinstance(config, dict))


def _whole(hermes_home: Path) -> tuple[object, Exception | None]:
    """Return the home's whole configuration, and why it cannot be read."""
    import yaml

    try:
        return yaml.safe_load(read_regular_file(hermes_home / CONFIG_NAME).decode("utf-8-sig")), None
    except (OSError, ValueError, OverflowError, RecursionError, yaml.YAMLError) as exc:
        return None, exc


def at(config: object, *path: str) -> object:
    """Return the value at a path of names; None if there is none."""
    for key in path:
        config = config.get(key) if isinstance(config, dict) else None
    return config
