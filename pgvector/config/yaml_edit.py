"""Setting single keys of a YAML file without touching the rest of it."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ..domain.dsn import mask_dsn
from ..domain.errors import ConfigurationError
from .yaml_lists import edit_block_list

if TYPE_CHECKING:
    import yaml

CONFIG_NAME = "config.yaml"
Key = tuple[str, ...]
_BOM = "\ufeff"


def set_values(home: Path, values: Mapping[Key, object]) -> bool:
    """Set nested keys such as ("memory", "provider") in the home's config.yaml; whether that changed anything.

    Everything else in the file stays byte for byte. The file and its directories are made when missing; it is
    replaced in one step and keeps its mode. Raises ConfigurationError, with the file untouched, when it cannot be read,
    written or changed that way; the message says what to write by hand.
    """
    # A link stays a link: what it points at is replaced.
    path = Path(os.path.realpath(home / CONFIG_NAME))
    try:
        before = path.read_bytes() if path.exists() else None
        original = (before or b"").decode()
    except OSError as error:
        _refuse(path, values, f"it cannot be read ({error.strerror})")
    except UnicodeDecodeError:
        _refuse(path, values, "it is not UTF-8 text")
    bom = _BOM if original.startswith(_BOM) else ""
    text = original.removeprefix(_BOM)
    try:
        edited = _edit(text, values)
    except _CannotEdit as why:
        _refuse(path, values, str(why))
    except RecursionError:
        _refuse(path, values, "it refers to itself")
    if edited == text:
        return False
    try:
        if (path.read_bytes() if path.exists() else None) != before:
            _refuse(path, values, "it was changed by another program just now")
        replace_file(path, (bom + edited).encode())
    except OSError as error:
        _refuse(path, values, f"it cannot be written ({error.strerror})")
    return True


class _CannotEdit(Exception):
    """Why the file cannot be edited."""


class _Style(NamedTuple):
    """By how many blanks the file indents, and how it ends lines."""

    step: int
    newline: str


def _refuse(path: Path, values: Mapping[Key, object], why: str) -> NoReturn:
    import yaml

    wanted: dict[str, Any] = {}
    for key, value in values.items():
        level = wanted
        for name in key[:-1]:
            level = level.setdefault(name, {})
        level[key[-1]] = mask_dsn(value) if isinstance(value, str) else _plain(value)
    block = yaml.safe_dump(wanted, sort_keys=False, allow_unicode=True)
    raise ConfigurationError(f"{path} was left as it is: {why}. Put this into it by hand:\n{block}")


def _edit(text: str, values: Mapping[Key, object]) -> str:
    wanted = _unshared(_load(text))
    for key, value in values.items():
        plain = _plain(value)
        if _same(_get(_load(text), key), plain):
            continue
        wanted = _with(wanted, key, plain)
        text = _set(text, key, plain)
        if not _same(_load(text, "the change would break it"), wanted):
            raise _CannotEdit(f"{'.'.join(key)} cannot be set there without changing something else")
    return text


def _load(text: str, otherwise: str = "it is not valid YAML") -> object:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _CannotEdit(otherwise + yaml_place(error)) from None
    except (ValueError, OverflowError):
        raise _CannotEdit(otherwise) from None


class _Missing:
    """Stands for a key that is not there; equal to nothing else."""


def _get(config: object, key: Key) -> object:
    for name in key:
        if not isinstance(config, dict) or name not in config:
            return _Missing
        config = config[name]
    return config


def _with(config: object, key: Key, value: object) -> object:
    """A copy of `config` in which `key` is `value`."""
    if not key:
        return value
    if config is not None and not isinstance(config, dict):
        raise _CannotEdit(f"there is no mapping where {'.'.join(key)} should go")
    copy = dict(config or {})
    copy[key[0]] = _with(copy.get(key[0]), key[1:], value)
    return copy


def _unshared(value: object) -> object:
    """A copy in which no two places are one object, unlike what YAML's anchors give."""
    if isinstance(value, dict):
        return {name: _unshared(inner) for name, inner in value.items()}
    return [_unshared(inner) for inner in value] if isinstance(value, list) else value


def _same(one: object, other: object) -> bool:
    """Equal in value and type: True is not 1, and NaN is NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other or (isinstance(one, float) and math.isnan(one) and str(one) == str(other))


def _set(text: str, key: Key, value: object) -> str:
    """`text` with one key set; the caller checks that the result means what it should."""
    import yaml

    # Marks count characters, and only the reader in Python counts them the same way for every input.
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    style = _Style(_step(root), "\r\n" if "\r\n" in text else "\n")
    if root is None or (isinstance(root, yaml.ScalarNode) and root.value == ""):
        body = text if not text or text.endswith("\n") else text + style.newline
        return body + _block(key, value, 0, style)
    node: yaml.Node = root
    name_node: yaml.Node | None = None
    for depth, name in enumerate(key):
        if not isinstance(node, yaml.MappingNode):
            if name_node is None or not _is_null(node):
                raise _CannotEdit(f"{'.'.join(key[:depth]) or 'the file'} is not a mapping")
            return _fill_null(text, (name_node, node), key[depth:], value, style)
        entry = _entry(node, name)
        if entry is None:
            return _insert(text, node, key[depth:], value, style)
        name_node, node = entry
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and isinstance(value, list) and name_node:
        edited = edit_block_list(text, name_node, node, value, _inline)
        if edited is not None:
            return edited
    return _overwrite(text, node, value)


def _entry(mapping: yaml.MappingNode, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    """The entry of that name; of several the last, which is the one that counts."""
    named = [pair for pair in mapping.value if pair[0].tag == "tag:yaml.org,2002:str" and pair[0].value == name]
    return named[-1] if named else None


def _is_null(node: yaml.Node) -> bool:
    return node.tag == "tag:yaml.org,2002:null"


def _overwrite(text: str, node: yaml.Node, value: object) -> str:
    import yaml

    start, end = node.start_mark.index, node.end_mark.index
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        raise _CannotEdit(f"line {node.start_mark.line + 1} holds a block of lines where one value should go")
    replaced = text[start:end]
    end -= len(replaced) - len(replaced.rstrip())  # a block of text ends only where the next key begins
    lead = " " if start and text[start - 1] == ":" else ""
    return text[:start] + lead + _inline(value) + text[end:]


def _fill_null(text: str, entry: tuple[yaml.Node, yaml.Node], key: Key, value: object, style: _Style) -> str:
    """Put a mapping where `name:` has no value, or `null`."""
    name_node, node = entry
    start, end = node.start_mark.index, node.end_mark.index
    if start == end and _starts_line(text, name_node):
        return _insert_lines(text, end, _block(key, value, name_node.start_mark.column + style.step, style), style)
    lead = " " if start and text[start - 1] == ":" else ""
    return text[:start] + lead + "{" + _flow(key, value) + "}" + text[end:]


def _insert(text: str, mapping: yaml.MappingNode, key: Key, value: object, style: _Style) -> str:
    """Add an entry at the end of a mapping."""
    if mapping.flow_style:
        if not mapping.value:
            brace = mapping.start_mark.index + text[mapping.start_mark.index :].index("{") + 1
            return text[:brace] + _flow(key, value) + text[brace:]
        end = _end_of_last(text, mapping)
        return text[:end] + ", " + _flow(key, value) + text[end:]
    column = mapping.value[0][0].start_mark.column
    return _insert_lines(text, _end_of_last(text, mapping), _block(key, value, column, style), style)


def _insert_lines(text: str, index: int, lines: str, style: _Style) -> str:
    """`lines` after the line that `index` is in."""
    line_end = text.find("\n", index)
    if line_end < 0:
        return text + style.newline + lines
    return text[: line_end + 1] + lines + text[line_end + 1 :]


def _end_of_last(text: str, mapping: yaml.MappingNode) -> int:
    name, value = mapping.value[-1]
    return _end(text, value, name.end_mark.index)


def _end(text: str, node: yaml.Node, after: int) -> int:
    """Where a value's own text ends; a block's mark stands only at the next key, behind comments and blank lines.

    `after` is where its name ended: an alias carries the marks of its anchor, which stands before.
    """
    import yaml

    if node.start_mark.index < after:
        return after
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        if isinstance(node, yaml.MappingNode):
            return _end(text, last[1], last[0].end_mark.index)
        return _end(text, last, node.start_mark.index)
    start: int = node.start_mark.index
    end: int = node.end_mark.index
    return start + len(text[start:end].rstrip())


def _starts_line(text: str, node: yaml.Node) -> bool:
    line_start = text.rfind("\n", 0, node.start_mark.index) + 1
    return not text[line_start : node.start_mark.index].strip()


def _step(root: yaml.Node | None) -> int:
    """By how many blanks the file indents."""
    import yaml

    if isinstance(root, yaml.MappingNode):
        for name, value in root.value:
            if isinstance(value, yaml.MappingNode) and not value.flow_style and value.value:
                step: int = value.value[0][0].start_mark.column - name.start_mark.column
                return max(step, 1)
    return 2


def _block(key: Key, value: object, column: int, style: _Style) -> str:
    *parents, last = key
    lines = [f"{' ' * (column + style.step * depth)}{_inline(name)}:" for depth, name in enumerate(parents)]
    lines.append(f"{' ' * (column + style.step * len(parents))}{_inline(last)}: {_inline(value)}")
    return style.newline.join(lines) + style.newline


def _flow(key: Key, value: object) -> str:
    inner = _inline(value)
    for name in reversed(key[1:]):
        inner = f"{{{_inline(name)}: {inner}}}"
    return f"{_inline(key[0])}: {inner}"


def _inline(value: object) -> str:
    """The value on one line, in a form that is right in block and in flow style."""
    import yaml

    if isinstance(value, str) and "\n" in value:
        return json.dumps(value, ensure_ascii=False)
    return yaml.safe_dump([value], default_flow_style=True, width=sys.maxsize, allow_unicode=True).strip()[1:-1]


def _plain(value: object) -> object:
    """The value as YAML's own types. Raises ConfigurationError for what YAML cannot hold."""
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


def replace_file(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Put `data` at `path` in one step, keeping owner and, unless another `mode` is given, mode. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            found = path.stat()
            if hasattr(os, "chown"):
                with suppress(PermissionError):
                    os.chown(temporary, found.st_uid, found.st_gid)
            os.chmod(temporary, found.st_mode & 0o7777 if mode is None else mode)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def yaml_place(error: Exception) -> str:
    """Where and what a YAML error is, without quoting the file, in which passwords may stand."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = f" (line {mark.line + 1})" if mark is not None else ""
    problem = getattr(error, "problem", None)
    # Problems that quote a whole token could quote a password; those about one character or none cannot.
    return f"{where}: {problem}" if isinstance(problem, str) and not re.search(r"['\"][^'\"]{2,}", problem) else where
