"""Checked settings from the file's section, the form and the environment."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..domain.dates import knows_zones, zone_named
from ..domain.errors import WrongUsage
from ..domain.patterns import late_pattern
from ..domain.redaction import MAX_PATTERNS, masked, pattern_problem
from .near_names import advice_on, is_dsn
from .settings import ENV_PREFIX, EXPRESSIONS, FIELDS, KNOWN_ENV, SECTION, TIME_ZONE, Field, Settings
from .sources import keep_words

_BY_KEY = {field.key: field for field in FIELDS}
_BY_ENV = {field.env: field for field in FIELDS}
_VARIABLE = late_pattern(r"\$\{([^}]+)\}")
# What replaces an unusable value of these settings, whatever other sources say: a default, or the value of a lower
# source, might delete, or show to somebody, what the setting was to protect, or lead to another memory.
_KEEPING: dict[str, tuple[object, str]] = {
    "dsn": ("", "it names no database"),
    "embedded_dir": ("", "it names no directory"),
    "retention": ((), "nothing is deleted by it"),
    "recall_off": (("*",), "no theme recalls anything until it is corrected"),
    "cross_theme": (("none",), "no session reads another theme until it is corrected"),
}


class Loaded(NamedTuple):
    """Settings that can be used as they are, and one sentence for each thing that was wrong."""

    settings: Settings
    warnings: tuple[str, ...]


def load(
    section: object,
    environ: Mapping[str, str],
    form: Mapping[str, object] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Loaded:
    """Return the settings of the file's section, overridden by the host's form and the environment; never raises.

    Values in the file may refer to `variables` (default: `environ`) by ${NAME}, as everywhere in the host's file.
    `section` is whatever YAML gave, `form` what the desktop's form saved, in which a blank is ignored. A value that
    cannot be used leaves the default (or, if it came from the form or the environment, the value below it) in place
    and adds one warning; an unknown key adds one, too. No warning contains the text of a free-text setting, which may
    be a password.
    """
    found = _Found(environ if variables is None else variables)
    found.take_section(section)
    found.take_form(form or {})
    found.take_environment(environ)
    if found.values.get("read_dsn") and not found.values.get("dsn"):
        del found.values["read_dsn"]
        found.warnings.append(
            f"{SECTION}.read_dsn: a replica needs a primary, and `dsn` names none (the embedded Postgres has no "
            "replicas); ignored: set dsn as well, or leave read_dsn out"
        )
    return Loaded(Settings(**found.values), tuple(found.warnings))


class _Found:
    """The settings found in one source after the other, and what was wrong there."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self.values: dict[str, Any] = {}
        self.warnings: list[str] = []

    def take_section(self, section: object) -> None:
        """Take the settings of the file."""
        if section is not None and not isinstance(section, Mapping):
            kind = _type_of(section)
            self.warnings.append(f"{SECTION} must hold settings, one `name: value` a line, not {kind}; it is not used")
            return
        for key, raw in (section or {}).items():
            field = _BY_KEY.get(key) if isinstance(key, str) else None
            if field is None:
                advice = "did you mean dsn?" if is_dsn(raw) else advice_on(key)
                self.warnings.append(f"{SECTION}: unknown setting {_shown_key(key)}, ignored; {advice}")
            elif raw is not None:
                origin = f"{SECTION}.{field.key}"
                self._take(field, self._filled_in(field, raw, origin), origin)

    def _filled_in(self, field: Field, raw: object, origin: str) -> object:
        """Return a value of the file with its variables filled in; one that is not set stays as it is written."""
        if isinstance(raw, list):
            return [self._filled_in(field, each, origin) for each in raw]
        if not isinstance(raw, str) or "${" not in raw or field.form == EXPRESSIONS:
            return raw
        filled = _VARIABLE.sub(lambda found: self._variables.get(found[1], found[0]), raw)
        if any(name not in self._variables for name in _VARIABLE.findall(raw)):
            self.warnings.append(
                f"{origin}: it refers to a variable that is not set, and stands as it is written; set that in .env"
            )
        return filled

    def take_form(self, form: Mapping[str, object]) -> None:
        """Take the settings that the form saved, which may contain names that are not ours."""
        for key, raw in form.items():
            if key in _BY_KEY and raw not in (None, ""):
                self._take(_BY_KEY[key], raw, f"the form's {key}")

    def take_environment(self, environ: Mapping[str, str]) -> None:
        """Take the variables with our prefix."""
        ours = {name: raw for name, raw in environ.items() if name.startswith(ENV_PREFIX) and raw.strip()}
        for name in [name for name in ours if name in _BY_ENV]:
            self._take(_BY_ENV[name], ours.pop(name), name)
        known = KNOWN_ENV | {self.values.get("embed_api_key_env"), self.values.get("rerank_api_key_env")}
        for name in ours:
            if name not in known:
                advice = advice_on(name.removeprefix(ENV_PREFIX), prefix=ENV_PREFIX)
                self.warnings.append(f"unknown environment variable {_shown_key(name)}, ignored; {advice}")

    def _take(self, field: Field, raw: object, origin: str) -> None:
        try:
            self.values[field.key] = coerce(field, raw)
        except Rejected as why:
            used = self._instead(field, why)
            self.warnings.append(f"{origin}: expected {field.expected}, got {why}; {used}")

    def _instead(self, field: Field, why: Rejected) -> str:
        """Set what replaces a value that cannot be used; return it in words."""
        if field.key in _KEEPING:
            self.values[field.key], said = _KEEPING[field.key]
            return said
        if why.rest:
            self.values[field.key] = why.rest
            return "using the others"
        if field.key in self.values:
            return "using what the file says"
        return f"using the default {field.shown_default or '(empty)'}"


def _shown_key(key: object) -> str:
    if isinstance(key, str):
        return quoted(key)
    return _shown_number(key) if isinstance(key, (int, float)) else _type_of(key)


_TRUE = frozenset({"true", "yes", "on", "1", "y", "t"})
_FALSE = frozenset({"false", "no", "off", "0", "n", "f"})


class Rejected(Exception):
    """A value that cannot be used for a setting; says what it was instead. `rest` is the usable part of a list."""

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
        raise Rejected(_shown_number(raw))
    if not isinstance(raw, str):
        raise Rejected(_type_of(raw))
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
        raise Rejected(_shown_number(number))
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
        raise Rejected(_type_of(raw))
    if isinstance(raw, float) and not math.isfinite(raw):
        raise Rejected(str(raw))
    if isinstance(raw, int) and raw.bit_length() > 1000:  # more than a float can hold
        raise Rejected(_shown_number(raw))
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
    if field.choices:
        if text.lower() not in field.choices:
            raise Rejected(quoted(text))
        return text.lower()
    if field.pattern and not re.fullmatch(field.pattern, text):
        raise Rejected("text that cannot be one")
    if field.form == TIME_ZONE:
        _check_zone(text)
    return text


def _check_zone(text: str) -> None:
    try:
        zone_named(text)
    except WrongUsage:
        lacks = "" if knows_zones() else ", and it knows none but UTC: install the package tzdata on it"
        raise Rejected(f"{quoted(text)}{lacks}") from None


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
        raise Rejected(_type_of(raw))
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
    """Return the list or mapping that a JSON text contains; anything else unchanged."""
    if not isinstance(raw, str) or raw.strip()[:1] not in ("[", "{"):
        return raw
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw


def _from_yaml(raw: object) -> object:
    """Return the same for YAML on one line, too, as `hermes config set` writes it: `[remember, forget]` as text."""
    found = _from_json(raw)
    if not isinstance(found, str) or found.strip()[:1] + found.strip()[-1:] not in ("[]", "{}"):
        return found
    import yaml

    try:
        document = yaml.SafeLoader(found)
        node = document.get_single_node()
        keep_words(node)
        return document.construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError):
        return raw


def _as_words(raw: object) -> tuple[str, ...]:
    if raw is False:  # what YAML makes of `off` and `no`
        return ()
    if isinstance(raw, str):
        raw = _as_text(raw).split(",")
    if not isinstance(raw, (list, tuple, set, frozenset)):
        raise Rejected(_type_of(raw))
    words: list[str] = []
    for item in raw:
        word = _as_text(item)
        if word and word not in words:
            words.append(word)
    return tuple(words)


def _as_pairs(raw: object) -> object:
    """Return a mapping as a list of `name=value`; anything else unchanged."""
    return [f"{_as_text(name)}={_as_text(value)}" for name, value in raw.items()] if isinstance(raw, Mapping) else raw


def _choices(words: tuple[str, ...], choices: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of `choices` that are named, in their order."""
    named = [word.lower().replace("-", "_") for word in words]
    good = tuple(choice for choice in choices if choice in named)
    if unknown := [word for word, name in zip(words, named, strict=True) if name not in choices]:
        raise Rejected(quoted(unknown[0]), good)
    return good


def _expressions(raw: object) -> tuple[str, ...]:
    """Return regular expressions; a text is a single one, including its commas."""
    given = _as_words([raw] if isinstance(raw, str) else raw)
    problems = [pattern_problem(expression) for expression in given[:MAX_PATTERNS]]
    good = tuple(expression for expression, problem in zip(given, problems, strict=False) if not problem)
    if len(given) > MAX_PATTERNS:
        raise Rejected(f"more than {MAX_PATTERNS} of them", good)
    if len(good) < len(given):
        number, problem = next((number, problem) for number, problem in enumerate(problems, 1) if problem)
        raise Rejected(f"one (number {number}) that is {problem}", good)
    return good


def _type_of(value: object) -> str:
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


def _shown_number(value: int | float) -> str:
    """Return a number as a warning shows it."""
    return str(value) if isinstance(value, float) or value.bit_length() <= 64 else "a very large number"


def quoted(text: str) -> str:
    """Return the beginning of a text, safe to log."""
    return ascii(masked(text[:1000])[:60])
