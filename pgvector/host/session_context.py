"""Session context, captured once by `initialize`: background threads know neither home nor profile."""

from __future__ import annotations

import functools
import os
import shlex
from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..capture.sanitize import Sanitizer
from ..config.loading import Loaded, load
from ..config.near_names import Misplaced, misnames_database, names_place
from ..config.settings import ENV_PREFIX, FIELDS, Settings
from ..config.sources import (
    CONFIG_NAME,
    DOTENV_NAME,
    dotenv_problem,
    misplaced_section,
    read_dotenv,
    read_form,
    read_section,
    read_timezone,
    unread_in_dotenv,
)
from ..domain.dates import zone_named
from ..domain.errors import ConfigurationError, InvalidArgument, WrongUsage
from ..domain.redaction import identity_digest, mask_identifiers
from ..domain.text import clean
from ..domain.theme import CONTEXT_PLATFORMS, SessionThemes, Surface, Theme, ThemeRules, ThemeSet, session_themes
from ..domain.theme_access import Reach, SharedChats
from ..server.home_record import (
    HomeRecord,
    copied_from,
    has_data,
    is_embedded,
    is_hidden,
    last_server,
    path_in,
    record,
    recorded,
)
from ..server.layout import default_root, root_of, whole_home

_PLACES = {f"{ENV_PREFIX}DSN", f"{ENV_PREFIX}EMBEDDED_DIR"}  # without them it would be another memory
_WORD_MAX_CHARS = 64


class Policy(NamedTuple):
    """The settings that concern themes, in a form ready for use."""

    rules: ThemeRules
    reach: Reach
    silent: ThemeSet  # themes whose sessions recall nothing
    write_contexts: frozenset[str]
    keep: Sanitizer

    @classmethod
    @functools.lru_cache(maxsize=64)
    def of(cls, settings: Settings) -> Policy:
        """Return the policy of these settings."""
        rules = ThemeRules.of(
            default=settings.default_theme,
            allowed=settings.allowed_themes,
            aliases=settings.theme_aliases,
            messaging=settings.messaging_theme,
            identity_key=settings.identity_key,
        )
        return cls(
            rules,
            Reach(settings.cross_theme, rules, SharedChats(settings.shared_chats, settings.identity_key)),
            ThemeSet(settings.recall_off, settings.identity_key),
            frozenset(map(_kind_of_run, settings.write_contexts)),
            Sanitizer(settings),
        )

    def silences(self, where: SessionThemes, counts: Counter[str]) -> bool:
        """Return whether recall is off in a theme of the session or of its profile; counted as `recalls_off`."""
        if not any(theme.name in self.silent for theme in (where.turns, where.memories, where.files)):
            return False
        counts["recalls_off"] += 1
        return True

    def check_recall(self, where: SessionThemes, counts: Counter[str]) -> None:
        """Raise InvalidArgument if recall is off in one of these themes, which is counted."""
        if self.silences(where, counts):
            raise InvalidArgument("recall is off in this theme (setting `recall_off`)")


class SessionContext(NamedTuple):
    """Who is speaking, and in which themes. The session id is kept in the provider because it changes.

    `scope` holds what is stored with a row to filter by: profile and platform by name; user, chat and thread as
    digests. `opened_by`: the digest of `user_id`; `scope` prefers an id that the platform never changes.
    """

    place: SessionThemes
    scope: Mapping[str, str]
    agent_context: str
    opened_by: str = ""

    @property
    def theme(self) -> Theme:
        """Return the theme of the session's turns."""
        return self.place.turns

    @classmethod
    def from_host(cls, kwargs: Mapping[str, Any], rules: ThemeRules) -> SessionContext:
        """Read the keyword arguments of `initialize`."""

        def text(key: str) -> str:
            value = kwargs.get(key)
            return value if isinstance(value, str) else ""

        def told_apart(*keys: str) -> str:
            return next(filter(None, (_told_apart(kwargs.get(key), rules) for key in keys)), "")

        platform = clean(text("platform")).strip().lower()
        surface = Surface(text("gateway_session_key"), platform, text("agent_identity"), text("agent_workspace"))
        scope = {
            "profile": mask_identifiers(clean(surface.profile), rules.identity_key),
            "platform": mask_identifiers(platform, rules.identity_key),
            "user": told_apart("user_id_alt", "user_id"),
            "chat": told_apart("chat_id"),
            "chat_type": mask_identifiers(clean(text("chat_type"))[:_WORD_MAX_CHARS], rules.identity_key),
            "thread": told_apart("thread_id"),
        }
        return cls(
            place=session_themes(surface, rules),
            scope={key: value for key, value in scope.items() if value},
            agent_context=(
                platform if platform in CONTEXT_PLATFORMS else _kind_of_run(text("agent_context")) or "primary"
            ),
            opened_by=told_apart("user_id"),
        )

    def of_author(self, author: object, rules: ThemeRules) -> SessionContext:
        """Return the context of a turn whose author the host names: a chat has others than the user who opened it."""
        user = _told_apart(author.get("id"), rules) if isinstance(author, Mapping) else ""
        return self if user in ("", self.opened_by) else self._replace(scope={**self.scope, "user": user})

    def provenance(self, session_id: str, parent_session_id: str) -> dict[str, str]:
        """Return what is stored with a row to say where it came from."""
        known = {"session_id": session_id, "parent_session_id": parent_session_id, **self.scope}
        return {key: value for key, value in known.items() if value}


def _told_apart(given: object, rules: ThemeRules) -> str:
    """Return the digest of a platform's id of a user, chat or thread; "" if it gave none."""
    return identity_digest(str(given), rules.identity_key) if isinstance(given, (str, int)) and given != "" else ""


def _kind_of_run(word: str) -> str:
    """Return an agent context as it is compared and counted: `Sub-Agent` is `subagent`."""
    return clean(word).strip().lower().replace("-", "").replace("_", "")[:_WORD_MAX_CHARS]


def chat_of(kwargs: Mapping[str, Any]) -> str | None:
    """Return the host's key of the chat, "" where there is none; None for the API server, which can undo nothing."""
    key = kwargs.get("gateway_session_key")
    return None if kwargs.get("platform") == "api_server" else key if isinstance(key, str) else ""


def hermes_home(given: object = None) -> Path:
    """Return the home the host names, else its own answer for this context, else $HERMES_HOME or ~/.hermes."""
    if isinstance(given, (str, os.PathLike)) and str(given).strip():
        return Path(given).expanduser()
    try:
        from hermes_constants import get_hermes_home  # the host's own, which knows about profiles
    except ImportError:
        return Path(os.environ.get("HERMES_HOME", "").strip() or "~/.hermes").expanduser()
    return Path(get_hermes_home())


def profile_of(home: Path) -> str:
    """Return the profile's name as the host derives it from the home."""
    where = home.expanduser().resolve()
    return where.name if where.parent.name == "profiles" else "default"


def process_home() -> Path:
    """Return the home whose .env the host put into the environment, whichever profile it works for at the moment."""
    try:
        from hermes_constants import get_process_hermes_home
    except ImportError:  # a host that does not serve several profiles in one process
        return hermes_home()
    return Path(get_process_hermes_home())


# For each process home, the values that its .env has had so far: the environment keeps those changed or removed since.
_assigned: dict[Path, dict[str, set[str]]] = {}


def came_from_dotenv(name: str, value: str) -> bool:
    """Return whether the environment has this value from the process home's .env, not from who started the process."""
    return value in _of_dotenv(process_home()).get(name, ())


def _of_dotenv(own: Path) -> dict[str, set[str]]:
    said = _assigned.setdefault(own, {})
    for name, value in read_dotenv(own, "").items():
        said.setdefault(name, set()).add(value)
    return said


def environment(home: Path) -> dict[str, str]:
    """Return the environment with the home's own .env in place of what the host took from another profile's."""
    own = process_home()
    taken = _of_dotenv(own)
    # Of its own home the host has put the file into the environment. A program that is started by itself, as a command
    # or an MCP server, has it from here. A file that is missing for a moment removes nothing.
    if home == own:
        given = {name: value for name, value in os.environ.items() if value}  # `docker -e NAME=` names no key
        return dict(os.environ) | read_dotenv(home, "") | given | read_dotenv(home)
    kept = {name: value for name, value in os.environ.items() if value not in taken.get(name, ())}
    return kept | read_dotenv(home, "", kept)


def unused_variables(home: Path) -> tuple[str, ...]:
    """Return a sentence for each setting that who started this process has set, and the home's .env otherwise."""
    return tuple(
        f"{field.env} of the environment is not used: {home / DOTENV_NAME} sets it, too, and has priority"
        for field in FIELDS
        if (given := os.environ.get(field.env, "").strip())
        and (said := read_dotenv(home).get(field.env)) is not None
        and given != said.strip()
        and not came_from_dotenv(field.env, os.environ[field.env])
    )


def load_settings(config: Mapping[str, Any] | None, home: Path, environ: dict[str, str] | None = None) -> Loaded:
    """Return the settings of `config`, or of the home's files; problems with them are in `warnings`.

    `environ`: what `environment(home)` returned, from a caller who needs it too. Raises ConfigurationError if
    continuing with defaults would mean another database than the one that was named.
    """
    section, form, unread = _read_files(home) if config is None else (config, None, ())
    environ = environment(home) if environ is None else environ
    variables = ChainMap(read_dotenv(home, "", environ), environ)
    loaded = load(section, environ, form, variables)
    placed = bool(loaded.settings.dsn or loaded.settings.embedded_dir)
    misplaced = misplaced_section(home) if config is None else None
    loaded = loaded._replace(warnings=(*loaded.warnings, *_warnings(home, unread, misplaced, placed=placed)))
    misnamed = (
        _PLACES.intersection(unread) or misnames_database(section, environ) or _may_be_meant(misplaced, section, home)
    )
    sources = (section, form or {}, {name: value for name, value in environ.items() if value.strip()})
    if _is_elsewhere(sources, loaded.settings, misnamed=bool(misnamed)):
        why = "; ".join(loaded.warnings) or "plugins.pgvector.dsn or embedded_dir holds nothing but blanks"
        raise ConfigurationError(f"{why}; memory stays off rather than use another database")
    return _with_directory(_in_zone_of_host(loaded, home, variables), home)


def _may_be_meant(misplaced: Misplaced | None, section: object, home: Path) -> bool:
    """Return whether misplaced settings may name the database that was meant.

    Beside a section that has worked with the embedded Postgres they may be what is left of an earlier try.
    """
    return names_place(misplaced) and (section is None or not is_embedded(home))


def _read_files(home: Path) -> tuple[object, dict[str, object], Sequence[str]]:
    """Return the home's section and form, and the names in .env that are not set there. Raises ConfigurationError."""
    section, unreadable = read_section(home)
    if problem := dotenv_problem(home):
        unreadable.append(problem)
    if unreadable:
        raise ConfigurationError("; ".join(unreadable))
    return section, read_form(home), unread_in_dotenv(home)


def _warnings(home: Path, unread: Sequence[str], misplaced: Misplaced | None, *, placed: bool) -> Iterator[str]:
    """Yield what is told of settings that are not read, and of a home whose settings name no database any more."""
    if misplaced:
        yield f"{home / CONFIG_NAME}: {misplaced}"
    for name in unread:
        yield f"{home / DOTENV_NAME}: a line names {name}, but does not set it: write {name}=VALUE"
    if not placed and (server := last_server(home)):
        yield (
            f"the memory of this home was in {server}, and the settings name no `dsn` any more: from now on it is in "
            "the embedded Postgres; where that was not your doing, set `dsn` again"
        )


def _in_zone_of_host(loaded: Loaded, home: Path, variables: Mapping[str, str]) -> Loaded:
    """Return the settings with the host's time zone, unless they name one; one that is unknown is this machine's."""
    named = variables.get("HERMES_TIMEZONE", "").strip() or read_timezone(home)
    if loaded.settings.timezone or not named:
        return loaded
    try:
        zone_named(named)
    except WrongUsage:  # the host logs it
        return loaded
    return loaded._replace(settings=replace(loaded.settings, timezone=named))


def _is_elsewhere(sources: Sequence[object], settings: Settings, *, misnamed: bool) -> bool:
    """Return whether these settings would mean another database than the one that was named."""
    lost = _is_named("dsn", sources) or not all(isinstance(each, Mapping) for each in sources if each)
    misplaced = (misnamed or _is_named("embedded_dir", sources)) and not settings.embedded_dir
    return not settings.dsn and (lost or misplaced)


def _is_named(key: str, sources: Sequence[object]) -> bool:
    """Return whether one of the section, the form and the environment says something of this setting."""
    names = (key, ENV_PREFIX + key.upper())
    return any(each.get(name) not in (None, "") for each in sources if isinstance(each, Mapping) for name in names)


def _with_directory(loaded: Loaded, home: Path) -> Loaded:
    """Return the settings with the directory of the home's embedded Postgres, if that is not the user's.

    Raises ConfigurationError if the home was moved, and its memory is in the server that it had before.
    """
    settings = loaded.settings
    if settings.embedded_dir:
        lost = "" if settings.dsn else _missing_from(Path(settings.embedded_dir), home)
        return loaded._replace(warnings=(*loaded.warnings, lost)) if lost else loaded
    try:
        root, usual = root_of(home), default_root()
    except RuntimeError:  # a user without a home directory; whoever starts the server will say so
        return loaded
    if settings.dsn:
        # A home that shared the user's server finds it again, though it notes only other databases from now on.
        if has_data(root):
            record(whole_home(home), root)
    elif lost := _compare_with_record(whole_home(home), root):
        loaded = loaded._replace(warnings=(*loaded.warnings, lost))
    return loaded if root == usual else loaded._replace(settings=replace(settings, embedded_dir=str(root)))


def _missing_from(chosen: Path, home: Path) -> str:
    """Return a warning if the server that this home had in a directory of the settings no longer exists, else ""."""
    try:
        root = Path(os.path.abspath(chosen.expanduser()))
    except (RuntimeError, ValueError):  # whoever starts the server will say what is wrong with it
        return ""
    return _compare_with_record(home, root, chosen=True)


def _compare_with_record(home: Path, root: Path, *, chosen: bool = False) -> str:
    """Return a warning if the server of this home no longer exists, "" if nothing is wrong."""
    if has_data(root):
        record(home, root, chosen=chosen)
        return ""
    before = recorded(home, chosen=chosen)
    if before is not None and before.server == root:
        if is_hidden(root):  # nothing begins anew there: whoever starts the server says why it cannot be used
            return ""
        return (
            f"the data of this home's embedded Postgres, {root / 'data'}, is not there: memory begins anew; where that "
            "was not your doing, stop the agents and put the folder back, or restore a backup"
        )
    return "" if before is None or chosen else _compare_with_usual(home, root, before)


def _compare_with_usual(home: Path, root: Path, before: HomeRecord) -> str:
    """Return a warning if the server was in another directory `before`, or is that of the home this is a copy of.

    Raises ConfigurationError if the home was moved, and its memory is in the server that it had before.
    """
    if not has_data(before.server):
        return (
            f"the embedded Postgres of this home was in {before.server} and is not there: memory begins anew in "
            f"{root}; bring it along from where it is: hermes-pgvector export there, then import here"
        )
    if (original := copied_from(home)) is not None:
        return (
            f"this home is a copy of {original} and begins with a memory of its own; to use that of there in both: "
            f"hermes config set plugins.pgvector.embedded_dir {shlex.quote(str(before.server))}"
        )
    raise ConfigurationError(
        f"this home was moved here from {before.home}, and its memory is in the embedded Postgres of there; to go "
        f"on with that: hermes config set plugins.pgvector.embedded_dir {shlex.quote(str(before.server))} ; to "
        f"begin without it: rm {shlex.quote(str(path_in(home)))}"
    )
