"""Settings written into config.yaml, with the comments, order and quoting of everything else kept."""

from __future__ import annotations

import io
import os
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from functools import reduce
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import CommentMark, YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, FoldedScalarString, LiteralScalarString
from ruamel.yaml.tokens import CommentToken

from ...config.sources import CONFIG_NAME, yaml_place
from ...domain.errors import ConfigurationError
from ...domain.files import read_regular_file
from ...domain.redaction import mask_dsn
from .file_replacing import changing, replace_file

Key = tuple[str, ...]
_BOM = "\ufeff"


def set_values(home: Path, values: Mapping[Key, object], *, really: bool = True) -> bool:
    """Set nested keys such as ("memory", "provider") in the home's config.yaml; return whether that changes anything.

    The file and its directories are created if missing; it is replaced in one step and keeps its mode. If not `really`,
    nothing is written. Raises ConfigurationError, with the file untouched, if it cannot be read, written, or changed
    without changing something else; the message says what to write by hand.
    """
    # A symlink is kept: the file it points to is replaced.
    path = Path(os.path.realpath(home / CONFIG_NAME))
    plain = {key: _plain(value) for key, value in values.items()}
    try:
        with changing(path) if really else nullcontext():
            text, edited = _before_and_after(path, plain)
            if really and edited != text:
                if _read(path) != text.encode():
                    raise _refusal(path, plain, "it was changed by another program just now")
                replace_file(path, edited.encode())
    except OSError as error:
        raise _refusal(path, plain, f"it cannot be written ({error.strerror})") from error
    return edited != text


def _before_and_after(path: Path, values: Mapping[Key, object]) -> tuple[str, str]:
    try:
        text = _read(path).decode()
        bom = _BOM if text.startswith(_BOM) else ""
        edited = bom + _edited(text.removeprefix(_BOM), values)
    except OSError as error:
        raise _refusal(path, values, f"it cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise _refusal(path, values, "it is not UTF-8 text") from None
    except RecursionError:
        raise _refusal(path, values, "it refers to itself") from None
    except _CannotEdit as why:
        raise _refusal(path, values, str(why)) from None
    return text, edited


class _CannotEdit(Exception):
    """The reason why the file cannot be edited."""


def _read(path: Path) -> bytes:
    return read_regular_file(path) if path.exists() else b""


def _refusal(path: Path, values: Mapping[Key, object], why: str) -> ConfigurationError:
    wanted: dict[str, Any] = {}
    for key, value in values.items():
        wanted = _with(wanted, key, mask_dsn(value) if isinstance(value, str) else value)
    block = yaml.safe_dump(wanted, sort_keys=False, allow_unicode=True)
    return ConfigurationError(f"{path} was left as it is: {why}. Put this into it by hand:\n{block}")


def _edited(text: str, values: Mapping[Key, object]) -> str:
    """Return `text` with the values set. Raises _CannotEdit if that is impossible, or would change something else."""
    config = _load(text, "it is not valid YAML")
    wanted = config
    for key, value in values.items():
        wanted = _with(wanted, key, value)
    if repr(wanted) == repr(config):
        return text
    edited = _round_trip(text, values)
    # The host reads the file with PyYAML, which implements YAML 1.1, so PyYAML's reading of the result is what counts.
    if repr(_load(edited, "the change would break it")) != repr(wanted):
        names = ", ".join(".".join(key) for key in values)
        raise _CannotEdit(f"{names} cannot be set there without changing something else")
    if _comments(text) - _comments(edited):
        raise _CannotEdit("a comment would be lost")
    return edited


def _comments(text: str) -> Counter[str]:
    """Count how often each comment line occurs."""
    return Counter(line.strip() for line in text.splitlines() if line.lstrip().startswith("#"))


def _load(text: str, otherwise: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _CannotEdit(otherwise + yaml_place(error)) from None
    except (ValueError, OverflowError):
        raise _CannotEdit(otherwise) from None


def _with(config: Any, key: Key, value: object) -> Any:
    """Return a copy of `config` in which `key` is `value`."""
    if not key:
        if isinstance(config, dict) or (isinstance(config, list) and not isinstance(value, list)):
            raise _CannotEdit("it holds a block of lines where one value should go")
        return value
    if config is not None and not isinstance(config, dict):
        raise _CannotEdit(f"there is no mapping where {'.'.join(key)} should go")
    changed = dict(config or {})
    changed[key[0]] = _with(changed.get(key[0]), key[1:], value)
    return changed


def _round_trip(text: str, values: Mapping[Key, object]) -> str:
    editor = YAML()
    editor.preserve_quotes = True
    editor.explicit_start = text.startswith("---")
    editor.width = sys.maxsize  # never wrap a long line
    out = io.StringIO()
    try:
        document = editor.load(text.replace("\r\n", "\n"))
        if document is None:
            document, editor.explicit_start = CommentedMap(), False
            out.write(text if text.endswith("\n") or not text else text + "\n")  # the file holds nothing but comments
        _indent_as(document, editor)
        for key, value in values.items():
            _set(document, key, value)
        editor.dump(document, out)
    except DuplicateKeyError as error:
        raise _CannotEdit(f"a name stands in it twice{yaml_place(error)}") from None
    except YAMLError as error:
        raise _CannotEdit(f"it cannot be edited{yaml_place(error)}") from None
    except AttributeError:  # raised for an alias within its own anchor
        raise _CannotEdit("it refers to itself") from None
    edited = out.getvalue().replace("\r\n", "\n")
    return edited.replace("\n", "\r\n") if "\r\n" in text else edited


def _indent_as(document: Any, editor: YAML) -> None:
    """Make `editor` indent as the document's first blocks do."""
    steps: dict[bool, int] = {}  # by whether it is a mapping (True) or a list (False)
    nodes = [document]
    for node in nodes:
        for inner in filter(_is_block, node.values()):
            steps.setdefault(isinstance(inner, dict), inner.lc.col - node.lc.col)
            nodes += [inner] * isinstance(inner, dict)
    dash = steps.get(False, 0)
    editor.indent(mapping=steps.get(True, 2), sequence=dash + 2, offset=dash)


def _set(document: Any, key: Key, value: object) -> None:
    """Set one key of the document; comments below the preceding line are moved below the key's own line."""
    node = document
    *parents, name = key
    for depth, parent in enumerate(parents):
        if node.get(parent) is None:
            value, name = reduce(lambda inner, outer: {outer: inner}, reversed(key[depth + 1 :]), value), parent
            break
        node = node[parent]
    if isinstance(value, list) and isinstance(node.get(name), list) and node[name]:
        _set_items(node, name, value)
        return
    above = name if name in node else next(reversed(node), None)
    below = "" if above is None else _cut_below(node, above)
    node[name] = None  # otherwise ruamel.yaml keeps the style of the old text
    node[name] = _styled(value)
    _put_below(node, name, below)


def _set_items(node: Any, name: str, wanted: list[object]) -> None:
    """Remove the items of a list that are no longer wanted and append missing ones; other items keep their comments."""
    items = node[name]
    for place in reversed(range(len(items))):
        if items[place] not in wanted:
            below = _cut_below(items, place)
            del items[place]
            if place:
                _put_below(items, place - 1, below)
            elif items:
                items.ca.comment = items.ca.comment or [None, []]
                items.ca.comment[1].append(_comment(below))
            else:
                node[name] = _styled([])
                node.ca.items.get(name, [None] * 4)[3] = None  # else its own comment is in the way of the value
                _put_below(node, name, below + "".join(token.value for token in items.ca.end))
    for item in wanted:
        if item not in items:
            below = _cut_below(node, name)
            node[name].append(_styled(item))
            _put_below(node, name, below)


def _styled(value: Any) -> Any:
    """Return a value styled for writing: lists on one line, and text quoted if PyYAML would read it differently."""
    if isinstance(value, dict):
        return CommentedMap({name: _styled(inner) for name, inner in value.items()})
    if isinstance(value, list):
        line = CommentedSeq(map(_styled, value))
        line.fa.set_flow_style()
        return line
    if not isinstance(value, str):
        return value
    try:
        plain = yaml.safe_load(value) == value
    except (yaml.YAMLError, ValueError):
        plain = False
    return value if plain else DoubleQuotedScalarString(value)


def _last_line(node: Any, name: Any) -> tuple[Any, Any]:
    """Return the innermost node that holds the last line of an entry, and the entry's name there."""
    while _is_block(node[name]):
        node = node[name]
        name = next(reversed(node)) if isinstance(node, dict) else len(node) - 1
    return node, name


def _is_block(value: Any) -> bool:
    """Return whether a value is a mapping or list in block style, and not empty."""
    return isinstance(value, (CommentedMap, CommentedSeq)) and bool(value) and not value.fa.flow_style()


def _cut_below(node: Any, name: Any) -> str:
    """Remove and return the comments and blank lines below an entry, which ruamel.yaml stores with the entry."""
    node, name = _last_line(node, name)
    slots, slot = node.ca.items.get(name), _slot(node)
    if not slots or slots[slot] is None:
        return ""
    of_its_line, _, below = slots[slot].value.partition("\n")
    if isinstance(node[name], (LiteralScalarString, FoldedScalarString)):
        of_its_line, below = "", slots[slot].value
    slots[slot].value = of_its_line + "\n"
    return str(below)


def _put_below(node: Any, name: Any, below: str) -> None:
    if not below:
        return
    node, name = _last_line(node, name)
    slots = node.ca.items.setdefault(name, [None] * 4)
    slot = _slot(node)
    if slots[slot] is None:
        slots[slot] = _comment("\n")
    slots[slot].value += below


def _slot(node: Any) -> int:
    """Return the slot in which ruamel.yaml stores what follows an entry's value."""
    return 2 if isinstance(node, dict) else 0


def _comment(text: str) -> Any:
    return CommentToken(text, CommentMark(0), None)


def _plain(value: object) -> object:
    """Return the value as a type that YAML has. Raises ConfigurationError if there is none."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (str, Path)):
        text = str(value)
        if "\0" in text or text.encode(errors="replace").decode() != text:
            raise ConfigurationError("a setting must be UTF-8 text without NUL bytes")
        return text
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise ConfigurationError(f"a setting cannot be a {type(value).__name__}")
