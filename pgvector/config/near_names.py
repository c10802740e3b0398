"""What a name that is no setting may have meant: a setting, or the database."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from ..domain.fork_safety import at_import
from ..domain.patterns import late_pattern
from .settings import ENV_PREFIX, FIELDS, KNOWN_ENV

_KEYS = tuple(field.key for field in FIELDS)
_VARIABLES = frozenset(field.env for field in FIELDS)
_CONNINFO = late_pattern(
    r"\s*(?:postgres(?:ql)?://|(?:\w+\s*=\s*(?:'[^']*'|[^\s']+)\s+)*(?:host|hostaddr|dbname|service)\s*=)",
    re.IGNORECASE,
)
_PATH = late_pattern(r"\s*(?:[/\\~.$]|[a-z]:)", re.IGNORECASE)
_LIKE = 0.6  # least likeness of a name to the setting that was meant
_LIKE_FOLDER = 0.7  # to embedded_dir; "model_dir" is less
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
