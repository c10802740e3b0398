"""What YAML or the environment gave, in the type a setting has."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..domain.redaction import MAX_PATTERNS, masked, pattern_problem
from .settings import EXPRESSIONS

if TYPE_CHECKING:
    from .settings import Field

_TRUE = frozenset({"true", "yes", "on", "1", "y", "t"})
_FALSE = frozenset({"false", "no", "off", "0", "n", "f"})


class Rejected(Exception):
    """A value that cannot be used for a setting; says what it was instead. `rest` is what of a list can be used."""

    def __init__(self, what: str, rest: tuple[str, ...] | None = None) -> None:
        super().__init__(what)
        self.rest = rest


def coerce(field: Field, raw: object) -> object:
    """The value in the field's own type. Raises Rejected with what it was instead, in words safe to log."""
    if field.kind is bool:
        return _as_bool(raw)
    if field.word and isinstance(raw, str) and raw.strip().lower() == field.word:
        return field.word
    if field.kind is int or field.kind is float:
        number = _as_number(raw, whole=field.kind is int)
        low, high = field.low, field.high
        if (low is not None and number < low) or (high is not None and number > high):
            raise Rejected(shown_number(number))
        return number
    if field.kind is tuple:
        if field.form == EXPRESSIONS:
            given = _from_json(raw)
            written = isinstance(given, list) and all(isinstance(each, str) for each in given)
            return _as_expressions(given if written else raw)
        given = _from_yaml(raw)
        words = _as_words(_as_pairs(given) if "=" in field.form else given)
        if field.choices:
            return _as_choices(words, field.choices)
        for word in words:
            if field.pattern and not re.fullmatch(field.pattern, word):
                raise Rejected(quoted(word))
        return words
    text = _as_text(raw)
    if field.choices:
        choice = text.lower()
        if choice not in field.choices:
            raise Rejected(quoted(text))
        return choice
    if field.pattern and not re.fullmatch(field.pattern, text):
        raise Rejected("text that cannot be one")
    return text


def _as_bool(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, (int, float)) and raw in (0, 1):
        return raw == 1
    if isinstance(raw, str):
        word = raw.strip().lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        raise Rejected(quoted(raw))
    raise Rejected(shown_number(raw) if isinstance(raw, (int, float)) else type_of(raw))


def _as_number(raw: object, *, whole: bool) -> int | float:
    if isinstance(raw, bool):
        raise Rejected("true or false")
    if isinstance(raw, str):
        word = raw.strip()
        try:
            raw = int(word)
        except ValueError:
            try:
                raw = float(word)
            except ValueError:
                raise Rejected(quoted(word)) from None
    if not isinstance(raw, (int, float)):
        raise Rejected(type_of(raw))
    if isinstance(raw, float):
        if not math.isfinite(raw) or (whole and not raw.is_integer()):
            raise Rejected(str(raw))
    elif raw.bit_length() > 1000:  # more than a float can hold
        raise Rejected(shown_number(raw))
    return int(raw) if whole else float(raw)


def _as_text(raw: object) -> str:
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        try:
            return str(raw)
        except ValueError:  # Python refuses to print integers of more than 4,300 digits
            raise Rejected("a very large number") from None
    if not isinstance(raw, str):
        raise Rejected(type_of(raw))
    text = str(raw).strip()
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise Rejected("text with control characters")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Rejected("text that is not UTF-8") from None
    return text


def _from_json(raw: object) -> object:
    """What a text that is a list or a mapping in JSON says; anything else as it is."""
    if not isinstance(raw, str) or raw.strip()[:1] not in ("[", "{"):
        return raw
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw


def _from_yaml(raw: object) -> object:
    """The same in YAML on one line, as `hermes config set` writes what it is given: `[remember, forget]` as text."""
    found = _from_json(raw)
    if not isinstance(found, str) or found.strip()[:1] + found.strip()[-1:] not in ("[]", "{}"):
        return found
    try:
        import yaml

        return yaml.safe_load(found)
    except (ImportError, ValueError, RecursionError):
        return raw
    except yaml.YAMLError:
        return raw


def _as_words(raw: object) -> tuple[str, ...]:
    if raw is False:  # what YAML makes of `off` and `no`
        return ()
    if isinstance(raw, str):
        raw = _as_text(raw).split(",")
    if not isinstance(raw, (list, tuple, set, frozenset)):
        raise Rejected(type_of(raw))
    words: list[str] = []
    for item in raw:
        word = _as_text(item)
        if word and word not in words:
            words.append(word)
    return tuple(words)


def _as_pairs(raw: object) -> object:
    """A mapping as a list of `name=value`; anything else as it is."""
    return [f"{_as_text(name)}={_as_text(value)}" for name, value in raw.items()] if isinstance(raw, Mapping) else raw


def _as_choices(words: tuple[str, ...], choices: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `choices` that are named, in their order."""
    named = [word.lower().replace("-", "_") for word in words]
    good = tuple(choice for choice in choices if choice in named)
    if unknown := [word for word, name in zip(words, named, strict=True) if name not in choices]:
        raise Rejected(quoted(unknown[0]), good)
    return good


def _as_expressions(raw: object) -> tuple[str, ...]:
    """Regular expressions; text is one of them, with its commas."""
    given = _as_words([raw] if isinstance(raw, str) else raw)
    problems = [pattern_problem(expression) for expression in given[:MAX_PATTERNS]]
    good = tuple(expression for expression, problem in zip(given, problems, strict=False) if not problem)
    if len(given) > MAX_PATTERNS:
        raise Rejected(f"more than {MAX_PATTERNS} of them", good)
    if len(good) < len(given):
        number, problem = next((number, problem) for number, problem in enumerate(problems, 1) if problem)
        raise Rejected(f"one (number {number}) that is {problem}", good)
    return good


def type_of(value: object) -> str:
    """The kind of a YAML value, in words."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple, set)):
        return "a list"
    return f"a value of type {type(value).__name__}"


def shown_number(value: int | float) -> str:
    """A number as a warning shows it."""
    return str(value) if isinstance(value, float) or value.bit_length() <= 64 else "a very large number"


def quoted(text: str) -> str:
    """The beginning of a text, safe to log."""
    return ascii(masked(text[:1000])[:60])
