"""The configuration files of MCP clients: read an entry, or put one in and keep everything else."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from ...config.sources import CONFIG_NAME, yaml_place
from ...domain.commandline import command_of
from ...domain.errors import ConfigurationError, WrongUsage
from ...domain.files import read_regular_file
from ...domain.redaction import masked
from .file_replacing import changing, replace_file, write_file
from .repeat import held_back
from .toml_tables import without_table, written_table
from .yaml_file import set_values

_INDENT = re.compile(r"^([ \t]+)\"", re.MULTILINE)
_BOM = "\ufeff"
_OWN_VARIABLE: Final = "HERMES_HOME"  # whatever else is in `env` or `headers`, a person has put there: it may be a key
_HIDDEN: Final = "***"


@dataclass(frozen=True)
class Installed:
    """What was done to an entry, and where the file's previous version is kept."""

    action: Literal["added", "renewed", "unchanged"]
    path: Path
    entry: dict[str, Any]
    backup: Path | None = None
    before: object = None  # the entry that was there before


@dataclass(frozen=True)
class InstalledEntry:
    """An entry of ours in a client's file."""

    client: str
    path: Path
    name: str
    entry: Mapping[str, Any]


def entry_in(place: ClientFile, name: str) -> object:
    """Return a client's entry of this name; None if there is none. Raises ConfigurationError for a broken file."""
    return _servers(place, _text(place)).get(name)


def entries_for(home: Path) -> Iterator[InstalledEntry]:
    """Yield the entries with which this user's clients start our server for a home; broken files are skipped."""
    for client in CLIENTS:
        place = file_of(client, home, None)
        with suppress(ConfigurationError):
            for name, entry in _servers(place, _text(place)).items():
                if is_ours(entry) and _is_for(home, entry):
                    yield InstalledEntry(client, place.path, str(name), entry)


def _is_for(home: Path, entry: Mapping[str, Any]) -> bool:
    environment = entry.get("env")
    named = environment.get(_OWN_VARIABLE) if isinstance(environment, Mapping) else None
    return isinstance(named, str) and os.path.realpath(named) == os.path.realpath(home)


def install(place: ClientFile, name: str, entry: Mapping[str, Any], *, really: bool) -> Installed:
    """Put an entry into a client's file, which is replaced in one step; change nothing if the entry is there already.

    Raises ConfigurationError, with the file unchanged, if it is broken, cannot be written or has another server under
    this name.
    """
    path = Path(os.path.realpath(place.path))  # a symlink is kept: the file it points to is replaced
    try:
        with changing(path) if really and place.form != "yaml" else nullcontext():  # `set_values` does so itself
            return _install(place, path, name, entry, really=really)
    except OSError as exc:
        raise ConfigurationError(f"{path} was left as it is: {exc.strerror or exc}") from exc


def _install(place: ClientFile, path: Path, name: str, entry: Mapping[str, Any], *, really: bool) -> Installed:
    before = _text(place)
    found = _servers(place, before).get(name)
    if found is not None and not is_ours(found):
        raise ConfigurationError(
            f"{place.path} has another server {name!r}; it was left as it is: take another name with --name"
        )
    wanted = renewed(found, entry)
    if wanted == found:
        return Installed("unchanged", path, wanted)
    action: Literal["added", "renewed"] = "added" if found is None else "renewed"
    change = _change_yaml if place.form == "yaml" else _change_text
    change(place, before, name, wanted, really=False)
    if not really:
        return Installed(action, path, wanted, before=found)
    with held_back():  # else a copy, which holds what keys the client has, would be left of a file that did not change
        backup = _kept(path)
        change(place, before, name, wanted, really=True)
    return Installed(action, path, wanted, backup, found)


def without_secrets(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry as it may be shown: without known secrets, and without the values of variables and headers."""
    return {
        key: {name: each if name == _OWN_VARIABLE else _HIDDEN for name, each in value.items()}
        if key in ("env", "headers") and isinstance(value, Mapping)
        else _without_known_secrets(value)
        for key, value in entry.items()
    }


def _without_known_secrets(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {name: _without_known_secrets(each) for name, each in value.items()}
    return [_without_known_secrets(each) for each in value] if isinstance(value, list) else value


def shown_entry(place: ClientFile, name: str, entry: Mapping[str, Any]) -> str:
    """Return the lines to add to a file by hand for an entry, without the secrets in it."""
    shown = without_secrets(entry)
    if place.form == "toml":
        return written_table((place.table, name), shown)
    whole = {place.table: {name: shown}}
    if place.form == "yaml":
        text: str = yaml.safe_dump(whole, sort_keys=False, allow_unicode=True)
        return text
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _text(place: ClientFile) -> str:
    try:
        return read_regular_file(place.path).decode()
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise ConfigurationError(f"{place.path} cannot be read ({exc.strerror or exc})") from exc
    except UnicodeDecodeError:
        raise ConfigurationError(f"{place.path} was left as it is: it is not UTF-8 text") from None


def _servers(place: ClientFile, text: str) -> Mapping[str, Any]:
    whole = _parsed(place, text)
    servers = whole.get(place.table) if isinstance(whole, Mapping) else None
    if not isinstance(whole, Mapping) or not isinstance(servers, Mapping | None):
        raise ConfigurationError(
            f"{place.path} was left as it is: {place.table!r} is no table of servers in it; correct that first"
        )
    return servers or {}


def _parsed(place: ClientFile, text: str) -> Any:
    """Return the text as the client parses it."""
    plain = text.removeprefix(_BOM)
    if not plain.strip():
        return {}
    try:
        if place.form == "toml":
            return tomllib.loads(plain)
        if place.form == "json":
            return json.loads(plain, object_pairs_hook=_once)
        return yaml.safe_load(plain) or {}
    except yaml.YAMLError as exc:
        raise ConfigurationError(f"{place.path} was left as it is: it is not valid YAML{yaml_place(exc)}") from None
    except (ValueError, RecursionError) as exc:
        raise ConfigurationError(
            f"{place.path} was left as it is: it is not valid {place.form.upper()} ({' '.join(str(exc).split())})"
        ) from exc


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict. Raise ValueError for a duplicate name, one of which would be lost by rewriting."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _change_yaml(place: ClientFile, before: str, name: str, entry: Mapping[str, Any], *, really: bool) -> None:
    found = _servers(place, before).get(name)
    there = found if isinstance(found, Mapping) else {}
    changed: dict[tuple[str, ...], Any] = {
        (key,): value for key, value in entry.items() if key != "env" and there.get(key) != value
    }
    environment = there.get("env")
    known = environment if isinstance(environment, Mapping) else {}
    changed |= {("env", key): value for key, value in entry["env"].items() if known.get(key) != value}
    set_values(place.path.parent, {(place.table, name, *key): value for key, value in changed.items()}, really=really)


def _change_text(place: ClientFile, before: str, name: str, entry: Mapping[str, Any], *, really: bool) -> None:
    whole = _parsed(place, before)
    wanted = {**whole, place.table: {**(whole.get(place.table) or {}), name: entry}}
    edited = _with_toml(place, before, name, entry) if place.form == "toml" else _with_json(before, wanted)
    by_hand = f"put this into it by hand:\n{shown_entry(place, name, entry)}"
    try:
        unspoilt = _parsed(place, edited) == wanted
    except ConfigurationError:
        unspoilt = False
    if not unspoilt:
        raise ConfigurationError(
            f"{place.path} was left as it is: {name!r} cannot be put there without changing something else; {by_hand}"
        )
    if really:
        write_file(Path(os.path.realpath(place.path)), edited.encode(), by_hand)


def _with_json(before: str, wanted: Mapping[str, Any]) -> str:
    found = _INDENT.search(before)
    indent = found[1] if found else 2
    edited = json.dumps(wanted, indent=indent, ensure_ascii=False)
    if any("\ud800" <= char <= "\udfff" for char in edited):  # a lone surrogate, which UTF-8 cannot encode
        edited = json.dumps(wanted, indent=indent)
    if not before or before.endswith("\n"):
        edited += "\n"
    if "\r\n" in before:
        edited = edited.replace("\n", "\r\n")
    return (_BOM if before.startswith(_BOM) else "") + edited


def _with_toml(place: ClientFile, before: str, name: str, entry: Mapping[str, Any]) -> str:
    key = (place.table, name)
    kept = without_table(before, key).rstrip("\r\n")
    added = written_table(key, entry)
    return (kept + "\n\n" if kept else "") + added


def _kept(path: Path) -> Path | None:
    """Back up a file before it is changed and return the copy; only its owner may read it: clients keep keys there."""
    if not path.exists():
        return None
    backup = path.with_name(f"{path.name}.{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.bak")
    try:
        replace_file(backup, path.read_bytes())
    except OSError as exc:
        raise ConfigurationError(f"{path} was left as it is: no copy can be kept ({exc.strerror or exc})") from exc
    return backup


Form = Literal["json", "toml", "yaml"]
CLIENTS: Final = ("claude-code", "cursor", "codex", "hermes")
ENTRY_NAME: Final = "pgvector"
_PROGRAM: Final = "hermes-pgvector"
_SIGNS: Final = (_PROGRAM, "hermes_memory_pgvector")  # each of our entries contains one of these


@dataclass(frozen=True)
class ClientFile:
    """Where a client lists its servers: a table named `table` in a file of this format."""

    path: Path
    form: Form
    table: str


def file_of(client: str, home: Path, project: Path | None) -> ClientFile:
    """Return a client's file for the user, or for the folder `project`. Raises WrongUsage where folders have none."""
    user = Path.home()
    if client == "claude-code":
        return ClientFile(project / ".mcp.json" if project else user / ".claude.json", "json", "mcpServers")
    if client == "cursor":
        return ClientFile((project or user) / ".cursor" / "mcp.json", "json", "mcpServers")
    if project is not None:
        raise WrongUsage(f"{client} has no file for a single folder; leave --project out")
    if client == "codex":
        codex = Path(os.environ.get("CODEX_HOME") or user / ".codex")
        return ClientFile(codex / "config.toml", "toml", "mcp_servers")
    return ClientFile(home / CONFIG_NAME, "yaml", "mcp_servers")


def entry_of(client: str, home: Path, *options: str) -> dict[str, Any]:
    """Return the entry for this very program in this home, independent of the client's own PATH and environment.

    `options` are passed to the server.
    """
    program = Path(sys.executable).parent / _PROGRAM
    command = [str(program)] if program.is_file() else command_of("cli")
    command += ["mcp", *options]
    kind = {"type": "stdio"} if client == "claude-code" else {}
    environment = {_OWN_VARIABLE: str(home.expanduser().absolute())}
    return kind | {"command": command[0], "args": command[1:], "env": environment}


def options_in(entry: object) -> dict[str, str]:
    """Return the values of --theme and --compat in an entry of ours, if it has them."""
    args = entry.get("args") if isinstance(entry, Mapping) else None
    words = [each for each in args if isinstance(each, str)] if isinstance(args, Sequence) else []
    split = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    return {name: value for name, value in itertools.pairwise(split) if name in ("--theme", "--compat")}


def is_ours(entry: object) -> bool:
    """Return whether an entry starts our server."""
    text = json.dumps(entry, default=str)
    return isinstance(entry, Mapping) and any(sign in text for sign in _SIGNS)


def renewed(found: object, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry to write over an existing one; what else a person has put into that is kept."""
    if not isinstance(found, Mapping):
        return dict(wanted)
    environment = found.get("env")
    kept = environment if isinstance(environment, Mapping) else {}
    return {**found, **wanted, "env": {**kept, **wanted["env"]}}
