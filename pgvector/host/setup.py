"""The host's setup and status commands and its forms: what they show and save."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.settings import FIELDS, Field, Settings
from ..domain.commandline import lacking, typed
from ..domain.errors import ConfigurationError, HermesPgvectorError
from ..domain.redaction import mask_dsn, masked
from ..embed.model_folder import is_local
from .session_context import load_settings

if TYPE_CHECKING:
    from ..admin.setup.prompts import SetupOptions
    from ..admin.setup.wizard import SetupPlan

_LOOK_S = 3.0  # at the database, while somebody waits for the status
_EXIT_FAILED, _EXIT_INTERRUPTED = 1, 130
API_KEY = {
    "key": "embed_api_key",
    "label": "Embedding API key",
    "description": "Only where the endpoint wants one",
    "required": False,
    "default": "",
    "secret": True,
    "env_var": "HERMES_PGVECTOR_EMBED_API_KEY",
}


class CurrentValue(str):
    """A value shown in a form: a field returned as this very type was emptied; one that was typed again was not."""

    __slots__ = ()


def config_schema(fields: Iterable[Field], home: Path) -> list[dict[str, Any]]:
    """Return the settings of the host's forms in its format; secrets go to its .env.

    The defaults are the values in use in this home: the host does not know where our settings are, and saves the
    default of a field that was not changed. For an emptied field it saves the very object that is its default.
    """
    try:
        now = load_settings(None, home).settings
    except HermesPgvectorError:
        now = Settings()
    schema = []
    for field in fields:
        if not field.label:
            continue
        entry: dict[str, Any] = {
            "key": field.key,
            "label": field.label,
            "description": field.doc,
            "required": False,
            "default": "" if field.secret else _shown(getattr(now, field.key)),
        }
        if field.secret:
            entry |= {"secret": True, "env_var": field.env}
        if field.choices:
            entry["choices"] = list(field.choices)
        schema.append(entry)
        if field.key == "embed_model":
            schema.append(dict(API_KEY))
    return schema


def save_config(values: Mapping[str, Any], home: Path) -> None:
    """Write the settings that a form changed below plugins.pgvector of config.yaml.

    Raises ValueError, which the host shows, when one cannot be used or the file cannot be changed.
    """
    from ..admin.common.saving import Changes, save

    emptied = {key for key, value in values.items() if isinstance(value, CurrentValue)}
    wanted = _wanted(values, emptied)
    try:
        now = load_settings(None, home).settings
        changed = {key: value for key, value in wanted.items() if value != getattr(now, key)}
        if "dims" in changed:
            changed["dims"] = _dims_to_save(now, changed["dims"], emptied="dims" in emptied)
        if changed:
            save(home, Changes(changed))
    except ConfigurationError as exc:
        raise ValueError(str(exc)) from exc


def _wanted(values: Mapping[str, Any], emptied: set[str]) -> dict[str, Any]:
    """Return the settings that a form may set, with the defaults of those that were emptied. Raises ValueError."""
    from ..admin.common.saving import checked

    defaults = {field.key: field.default for field in FIELDS if not field.secret}
    given = checked({key: value for key, value in values.items() if key in defaults.keys() - emptied})
    return given | {key: defaults[key] for key in defaults.keys() & emptied}


def _dims_to_save(now: Settings, wanted: int, *, emptied: bool) -> int:
    """Return `dims` as a form may set it: the database's, if it has vectors. Raises ValueError for another value."""
    from ..admin.common.choose import held_dims
    from ..admin.common.embedded_server import existing_database

    with existing_database(now) as existing:
        held = held_dims(existing)
    if emptied:
        return held or wanted
    if held not in (0, wanted):
        raise ValueError(
            typed(
                f"Embedding dimensions: the database has vectors of {held} dimensions, so it cannot be {wanted}; "
                "another model and its length come with: hermes-pgvector reembed, or hermes memory setup pgvector "
                "while nothing is stored"
            )
        )
    return wanted


def post_setup(home: Path) -> None:
    """Ask, try, save, activate and report the state, for `hermes memory setup pgvector`; exits with 1 on errors."""
    from ..admin.setup.prompts import SetupOptions, Terminal

    try:
        code = set_up(home, SetupOptions(attended=Terminal.can_ask()))
    except HermesPgvectorError as exc:
        print(f"error: {exc}", file=sys.stderr)
        code = _EXIT_FAILED
    except Exception as exc:
        how = typed("HERMES_PGVECTOR_DEBUG=1 hermes-pgvector setup")
        print(f"error: unexpected {type(exc).__name__}: {masked(str(exc))}\nfor a report: {how}", file=sys.stderr)
        code = _EXIT_FAILED
    if code:
        raise SystemExit(code)


def set_up(home: Path, options: SetupOptions, *, dry_run: bool = False, as_json: bool = False) -> int:
    """Run the wizard; return an exit code. Nothing is saved before everything was tried, nor after Ctrl-C."""
    from ..admin.common.commands import read_or_not
    from ..admin.common.console import remark

    def say(line: str) -> None:
        if as_json:
            remark(typed(line))
            return
        with read_or_not():
            print(typed(line))

    code, done = _run_wizard(home, options, say, dry_run=dry_run)
    if as_json:
        print(json.dumps(done, indent=2))
    return code


def _run_wizard(
    home: Path, options: SetupOptions, say: Callable[[str], None], *, dry_run: bool
) -> tuple[int, dict[str, Any]]:
    """Plan, and unless it is a dry run carry it out, save and finish; return an exit code and what was done."""
    from ..admin.common.repeat import held_back
    from ..admin.common.saving import save
    from ..admin.setup.wizard import Wizard

    saved = False
    try:
        wizard = Wizard(home, options, say)
        plan = wizard.plan()
        _announce(plan, say)
        if dry_run:
            say("\nNothing was changed: this was a dry run.")
            return 0, {"saved": False} | plan.as_dict()
        if options.attended and not wizard.confirmed():
            raise KeyboardInterrupt
        plan = wizard.carry_out(plan)
        with held_back():
            save(home, plan.changes)
            saved = True
    except KeyboardInterrupt as exc:
        if saved:
            return _interrupted(plan, say, exc)
        say("\nCancelled. Nothing was saved.")
        return _EXIT_INTERRUPTED, {"saved": False} | _error("cancelled", exc)
    except HermesPgvectorError as exc:
        say(f"error: {exc}\nNothing was saved.")
        return _EXIT_FAILED, {"saved": False} | _error(str(exc), exc)
    try:
        done = _finish(plan, home, say)
    except KeyboardInterrupt as exc:
        return _interrupted(plan, say, exc)
    return 0 if done["doctor"]["healthy"] else _EXIT_FAILED, done


def _interrupted(plan: SetupPlan, say: Callable[[str], None], exc: KeyboardInterrupt) -> tuple[int, dict[str, Any]]:
    say("\nInterrupted. The settings are saved; what is still missing is told by: hermes-pgvector doctor")
    return _EXIT_INTERRUPTED, {"saved": True} | _error("interrupted", exc) | plan.as_dict()


def _error(message: str, exc: BaseException) -> dict[str, str]:
    """Return an error as every command has it in its JSON."""
    return {"error": message, "type": type(exc).__name__}


def _announce(plan: SetupPlan, say: Callable[[str], None]) -> None:
    say("")
    say(f"Memory:  {plan.database.describe()}")
    say(f"Recall:  {plan.model.describe()}")
    for line in plan.changes.lines() or ["nothing: all of this is set already"]:
        say(f"To save: {line}")
    for note in plan.notes:
        say(f"Note:    {note}")


def _finish(plan: SetupPlan, home: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Activate and run the doctor; return what was done, for machines. Raises HermesPgvectorError."""
    from ..admin.common.activation import activate, enable
    from ..admin.common.embedded_server import borrowed_server
    from ..admin.common.installation import install_plugin
    from ..admin.common.saving import after, overruled
    from ..admin.doctor.checklist import as_json, examine, render_text

    notes = list(plan.notes)
    now = load_settings(None, home).settings
    notes += [f"{name} in the environment overrides what was saved; unset it" for name in overruled(plan.wanted, now)]
    with after("the settings are saved"):
        if not (home / "plugins" / "pgvector" / "__init__.py").is_file():
            say(f"plugin {install_plugin(home).action}")
        how = activate(home, None)
    enable(home, None)
    say(f"\nSaved. Memory provider: pgvector ({how})\n")
    with borrowed_server(now) as locate:
        checks = examine(now, home, locate=locate)
    say(render_text(checks))
    for note in notes:
        say(f"Note: {note}")
    say("\nStart a new session to use it; restart a running gateway.")
    return (
        {"saved": True}
        | plan.as_dict()
        | {"notes": [typed(note) for note in notes], "activated": how, "doctor": as_json(checks)}
    )


def status(config: Mapping[str, Any] | None, home: Path) -> dict[str, str]:
    """Return the configuration without secrets, and first what keeps memory from working, within a few seconds."""
    check = {"check": typed("hermes-pgvector doctor")}
    if sentence := lacking():
        return {"problem": sentence} | check
    try:
        settings, warnings = load_settings(config, home)
    except HermesPgvectorError as exc:
        return {"problem": str(exc)} | check
    problem = _problem(settings)
    shown = {
        "problem": problem,
        "settings": "; ".join(warnings),
        "database": mask_dsn(settings.dsn) if settings.dsn else "embedded Postgres",
        "recall": _recall(settings),
        "last error": "" if problem else _last_error(home),
    }
    return {name: said for name, said in shown.items() if said} | check


def _problem(settings: Settings) -> str:
    """Return why the database cannot be used now, or "". An embedded one that is down starts when it is needed."""
    from ..admin.common.embedded_server import embedded_server
    from ..store.pool import connect
    from ..store.schema import ensure_schema

    try:
        if not settings.dsn:
            embedded_server(settings).check()
            return ""
        with connect(settings.dsn, timeout_s=_LOOK_S) as conn:
            conn.deadline = time.monotonic() + _LOOK_S
            ensure_schema(conn, dims=settings.dims)
    except HermesPgvectorError as exc:
        return str(exc)
    return ""


def _last_error(home: Path) -> str:
    """Return the error that an agent of this home has right now; empty when none has."""
    from ..admin.common.spool_views import inspect_spools, last_error, persists

    current = [view.report for view in inspect_spools(home) if view.living and persists(view.report)]
    return last_error(current[0]).removeprefix("last error ") if current else ""


def _recall(settings: Settings) -> str:
    url = settings.embed_url.strip()
    if not url:
        return "by words (no embed_url)"
    return f"by meaning and words ({url if is_local(url) else settings.embed_model})"


def _shown(value: object) -> object:
    """Return a value as a form may show it: one with a password is left out, and so not changed."""
    if isinstance(value, str) and masked(value) != value:
        return ""
    return value if isinstance(value, bool) else CurrentValue(value)
