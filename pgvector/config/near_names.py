"""What a name that means nothing here may have meant: a setting, the database, or the section of the settings."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..domain.fork_safety import at_import
from ..domain.patterns import late_pattern
from .settings import ENV_PREFIX, FIELDS, KNOWN_ENV, SECTION

_KEYS = tuple(field.key for field in FIELDS)
_VARIABLES = frozenset(field.env for field in FIELDS)
_CONNINFO = late_pattern(
    r"\s*(?:postgres(?:ql)?://|(?:\w+\s*=\s*(?:'[^']*'|[^\s']+)\s+)*(?:host|hostaddr|dbname|service)\s*=)",
    re.IGNORECASE,
)
_PATH = late_pattern(r"\s*(?:[/\\~.$]|[a-z]:)", re.IGNORECASE)
_LIKE = 0.6  # least likeness of a name to the setting that was meant
_LIKE_FOLDER = 0.7  # to embedded_dir; "model_dir" is less
_LIKE_SECTION = 0.85  # to pgvector; "pgvector_old" is less
_PLACES = ("dsn", "embedded_dir")
# What may stand between `plugins` and a section of ours; anything else there is another plugin, as is its "pgvector".
_BETWEEN = frozenset(("config", "entries", "memory", "options", "plugins", "providers", "settings"))
_SLIPS = 2  # characters too many or too few
_NO_SLIPS = frozenset(("vector", "pgvecto_rs"))  # names of something else, however like ours
# Settings of the other provider of this name, which a config.yaml may still hold.
_OF_OTHERS = {"hybrid_search": "recall always goes by meaning and by words; take it out"}


def misnames_database(section: object, environ: Mapping[str, str]) -> bool:
    """Return whether a name that is no setting was meant to name the database, as `dns` was, or `url` with a DSN."""
    given = section.items() if isinstance(section, Mapping) else ()
    if any(_may_be_place(key, raw) or is_dsn(raw) for key, raw in given if key not in _KEYS):
        return True
    # A variable with a DSN may be a script's; one with nearly the name of ours is not.
    unknown = (name for name in environ.keys() - KNOWN_ENV - _VARIABLES if name.startswith(ENV_PREFIX))
    return any(_may_be_place(name.removeprefix(ENV_PREFIX), environ[name]) for name in unknown)


class Misplaced(NamedTuple):
    """Settings of this plugin where nobody reads them; `has_place` if one of them says where its memory is."""

    where: str
    has_place: bool

    def __str__(self) -> str:
        """Return what is wrong, without the values of the settings."""
        found = f"{self.where} holds settings of this plugin, and nothing reads them there"
        return f"{found}: move them to {SECTION}, or take them out"


def misplaced_settings(config: object) -> Misplaced | None:
    """Return where a file holds outside our section what was meant to be in it, as `plugins.pgvektor` does."""
    others = ((path, section) for path, section in _like_ours(config) if path != SECTION)
    found = [Misplaced(path, _has_place(section)) for path, section in others if _has_settings(section)]
    plugins = config.get("plugins") if isinstance(config, Mapping) else None
    if isinstance(plugins, Mapping) and _has_place(plugins):
        found.append(Misplaced("plugins", has_place=True))
    return max(found, key=lambda each: each.has_place, default=None)


def names_place(misplaced: Misplaced | None) -> bool:
    """Return whether misplaced settings say where the memory is."""
    return misplaced is not None and misplaced.has_place


def _like_ours(level: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield, with their paths, mappings named like our section, where somebody may expect it to be.

    Elsewhere it is that of another program.
    """
    for key, value in level.items() if isinstance(level, Mapping) else ():
        if not isinstance(key, str) or not isinstance(value, Mapping):
            continue
        if _is_like(key, "pgvector"):
            yield ".".join((*path, key)), value
        elif _folded(key) in _BETWEEN if len(path) == 1 else not path and _may_hold_plugins(key):
            yield from _like_ours(value, (*path, key))


def _may_hold_plugins(key: str) -> bool:
    return _is_like(key, "plugins") or _is_like(key, "memory")


def _has_settings(section: Mapping[str, Any]) -> bool:
    return any(section.get(key) not in (None, "") for key in _KEYS)


def _has_place(section: Mapping[str, Any]) -> bool:
    return any(isinstance(section.get(key), str) and section[key].strip() for key in _PLACES)


@functools.lru_cache(maxsize=1024)
def _is_like(key: str, name: str) -> bool:
    """Return whether a key of a file is a section's name with a slip in it."""
    meant = _folded(key).replace(" ", "_").removeprefix("hermes_").removeprefix("memory_")
    if meant == name:
        return True
    if abs(len(meant) - len(name)) > _SLIPS or meant in _NO_SLIPS:
        return False
    # The letters that both have are the most that can be alike: most names are told apart by them alone.
    shared = (Counter(meant) & Counter(name)).total()
    if 2 * shared < _LIKE_SECTION * (len(meant) + len(name)):
        return False
    with at_import:
        import difflib

    return difflib.SequenceMatcher(None, meant, name).ratio() >= _LIKE_SECTION


def is_dsn(value: object) -> bool:
    """Return whether a value of any setting looks like a DSN."""
    return isinstance(value, str) and _CONNINFO.match(value) is not None


def advice_on(key: object, *, prefix: str = "") -> str:
    """Return what may have been meant by a name that is not a setting."""
    if not isinstance(key, str):
        return "settings have names"
    if other := _OF_OTHERS.get(_folded(key)):
        return other
    if not (close := _nearest(key)):
        return "no setting has a name like it"
    return f"did you mean {prefix + close.upper() if prefix else close}?"


def _may_be_place(name: object, value: object) -> bool:
    """Return whether `dsn` was meant, or `embedded_dir` with a path; "embedder: ollama" means neither."""
    if not isinstance(name, str) or not isinstance(value, str) or not value.strip():
        return False
    if _PATH.match(value) and _nearest(name, _LIKE_FOLDER) == "embedded_dir":
        return True
    return _nearest(name) == "dsn"


def _folded(key: str) -> str:
    return key.lower().replace("-", "_")[:60]


@functools.lru_cache(maxsize=256)
def _nearest(key: str, like: float = _LIKE) -> str:
    """Return the setting whose name is most like this one; "" if none is."""
    with at_import:
        import difflib

    return next(iter(difflib.get_close_matches(_folded(key), _KEYS, n=1, cutoff=like)), "")
