"""Values that YAML, a form or the environment gave, in the type that a setting has."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
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
    """Return the value in the field's own type. Raises Rejected with what it was instead, in words safe to log."""
    if field.word and isinstance(raw, str) and raw.strip().lower() == field.word:
        return field.word
    return _BY_KIND[field.kind](field, raw)


def _bool(field: Field, raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, (int, float)):
        if raw in (0, 1):
            return raw == 1
        raise Rejected(shown_number(raw))
    if not isinstance(raw, str):
        raise Rejected(type_of(raw))
    word = raw.strip().lower()
    if word not in _TRUE | _FALSE:
        raise Rejected(quoted(raw))
    return word in _TRUE


def _number(field: Field, raw: object) -> int | float:
    number = _finite(_parsed(raw.strip()) if isinstance(raw, str) else raw)
    if field.kind is int and isinstance(number, float) and not number.is_integer():
        raise Rejected(str(number))
    number = int(number) if field.kind is int else float(number)
    if (field.low is not None and number < field.low) or (field.high is not None and number > field.high):
        raise Rejected(shown_number(number))
    return number


def _parsed(word: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    raise Rejected(quoted(word))


def _finite(raw: object) -> int | float:
    if isinstance(raw, bool) or not isinstance(raw, (int, float)):
        raise Rejected(type_of(raw))
    if isinstance(raw, float) and not math.isfinite(raw):
        raise Rejected(str(raw))
    if isinstance(raw, int) and raw.bit_length() > 1000:  # more than a float can hold
        raise Rejected(shown_number(raw))
    return raw


def _list(field: Field, raw: object) -> tuple[str, ...]:
    if field.form == EXPRESSIONS:
        given = _from_json(raw)
        is_list = isinstance(given, list) and all(isinstance(each, str) for each in given)
        return _expressions(given if is_list else raw)
    given = _from_yaml(raw)
    words = _as_words(_as_pairs(given) if "=" in field.form else given)
    if field.choices:
        return _choices(words, field.choices)
    for word in words:
        if field.pattern and not re.fullmatch(field.pattern, word):
            raise Rejected(quoted(word))
    return words


def _line(field: Field, raw: object) -> str:
    text = "off" if raw is False and "off" in field.choices else _as_text(raw)  # YAML makes false of `off`
    if field.choices and text.lower() not in field.choices:
        raise Rejected(quoted(text))
    if field.pattern and not re.fullmatch(field.pattern, text):
        raise Rejected("text that cannot be one")
    return text.lower() if field.choices else text


_BY_KIND: dict[type, Callable[[Field, object], object]] = {
    bool: _bool, int: _number, float: _number, tuple: _list, str: _line,
}  # fmt: skip


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
    """Return the list or mapping that a text is in JSON; anything else as it is."""
    if not isinstance(raw, str) or raw.strip()[:1] not in ("[", "{"):
        return raw
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw


def _from_yaml(raw: object) -> object:
    """Return the same of YAML on one line, as `hermes config set` writes it: `[remember, forget]` as text."""
    found = _from_json(raw)
    if not isinstance(found, str) or found.strip()[:1] + found.strip()[-1:] not in ("[]", "{}"):
        return found
    import yaml

    try:
        return yaml.safe_load(found)
    except (yaml.YAMLError, ValueError, RecursionError):
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
    """Return a mapping as a list of `name=value`; anything else as it is."""
    return [f"{_as_text(name)}={_as_text(value)}" for name, value in raw.items()] if isinstance(raw, Mapping) else raw


def _choices(words: tuple[str, ...], choices: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of `choices` that are named, in their order."""
    named = [word.lower().replace("-", "_") for word in words]
    good = tuple(choice for choice in choices if choice in named)
    if unknown := [word for word, name in zip(words, named, strict=True) if name not in choices]:
        raise Rejected(quoted(unknown[0]), good)
    return good


def _expressions(raw: object) -> tuple[str, ...]:
    """Return regular expressions; text is one of them, with its commas."""
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
    """Return the kind of a YAML value, in words."""
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
    """Return a number as a warning shows it."""
    return str(value) if isinstance(value, float) or value.bit_length() <= 64 else "a very large number"


def quoted(text: str) -> str:
    """Return the beginning of a text, safe to log."""
    return ascii(masked(text[:1000])[:60])
