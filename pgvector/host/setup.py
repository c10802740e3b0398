"""What the host's setup and status commands and its forms show and save."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..admin.setup.prompts import Terminal, Wishes
from ..config.settings import FIELDS, Field, Settings
from ..domain.commandline import typed
from ..domain.dsn import mask_dsn
from ..domain.errors import ConfigurationError, HermesPgvectorError
from ..domain.redaction import masked
from ..embed.model_folder import is_local
from .availability import lacking
from .session_context import environment, load_settings

if TYPE_CHECKING:
    from ..admin.setup.wizard import Plan

_LOOK_S = 3.0  # at the database, while somebody waits for the status
_EXIT_FAILED, _EXIT_INTERRUPTED = 1, 130
API_KEY = {
    "key": "embed_api_key",
    "label": "API key of the endpoint",
    "description": "Only where the endpoint wants one",
    "required": False,
    "default": "",
    "secret": True,
    "env_var": "HERMES_PGVECTOR_EMBED_API_KEY",
}


class Holds(str):
    """What holds now, in a form: a field that comes back as this very type was emptied, as one typed again is not."""

    __slots__ = ()


def config_schema(fields: Iterable[Field], home: Path) -> list[dict[str, Any]]:
    """The settings of the host's forms, in its own form; secrets go to its .env.

    The defaults are what holds in this home: the host does not know where our settings are, and saves the default of
    what was not changed. Of a field that was emptied it saves the very object that is its default.
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
    from ..admin.common.saving import Changes, checked, save

    open_to_forms = {field.key: field for field in FIELDS if not field.secret}
    emptied = {key for key, value in values.items() if isinstance(value, Holds) and key in open_to_forms}
    typed = {key: value for key, value in values.items() if key not in emptied}
    wanted = {key: value for key, value in checked(typed).items() if key in open_to_forms}
    wanted |= {key: open_to_forms[key].default for key in emptied}
    try:
        now = load_settings(None, home).settings
        changed = {key: value for key, value in wanted.items() if value != getattr(now, key)}
        if "dims" in changed:
            changed |= _length_to_save(now, changed["dims"], emptied="dims" in emptied)
        if changed:
            save(home, Changes(changed))
    except ConfigurationError as exc:
        raise ValueError(str(exc)) from exc


def _length_to_save(now: Settings, wanted: int, *, emptied: bool) -> dict[str, int]:
    """`dims` as a form may set it: the database's, where there is one. Raises ValueError for another."""
    from ..admin.common.choose import existing_database, held_dims

    with existing_database(now) as existing:
        held = held_dims(existing)
    if emptied:
        return {"dims": held or wanted}
    if held not in (0, wanted):
        said = typed(
            f"Length of an embedding: the database has vectors of {held} dimensions, so it cannot be {wanted}; another "
            "model and its length come with: hermes-pgvector reembed, or hermes memory setup pgvector while nothing is "
            "stored"
        )
        raise ValueError(said)
    return {"dims": wanted}


def post_setup(home: Path) -> None:
    """`hermes memory setup pgvector`: ask, try, save, activate, and say how it stands."""
    try:
        code = set_up(home, Wishes(attended=Terminal.can_ask()))
    except HermesPgvectorError as exc:
        print(f"error: {exc}")
        code = _EXIT_FAILED
    if code:
        raise SystemExit(code)


def set_up(home: Path, wishes: Wishes, *, dry_run: bool = False, as_json: bool = False) -> int:
    """Run the wizard; an exit code. Nothing is saved before everything was tried; Ctrl-C leaves the files alone."""
    from ..admin.common.saving import save
    from ..admin.setup.wizard import Wizard

    out = sys.stderr if as_json else sys.stdout

    def say(line: str) -> None:
        print(typed(line), file=out, flush=True)

    try:
        wizard = Wizard(home, wishes, say)
        plan = wizard.plan()
        _announce(plan, say)
        if dry_run:
            say("\nNothing was changed: this was a dry run.")
            if as_json:
                print(json.dumps({"saved": False} | plan.as_dict(), indent=2))
            return 0
        if wishes.attended and not wizard.confirmed():
            raise KeyboardInterrupt
        plan = wizard.carry_out(plan)
        save(home, plan.changes)
    except KeyboardInterrupt:
        say("\nCancelled. Nothing was saved.")
        return _EXIT_INTERRUPTED
    except HermesPgvectorError as exc:
        say(f"error: {exc}\nNothing was saved.")
        if as_json:
            print(json.dumps({"saved": False, "error": str(exc)}, indent=2))
        return _EXIT_FAILED
    said = _finish(plan, home, say)
    if as_json:
        print(json.dumps(said, indent=2))
    return 0 if said["doctor"]["healthy"] else _EXIT_FAILED


def _announce(plan: Plan, say: Any) -> None:
    say("")
    say(f"Memory:  {plan.database.said()}")
    say(f"Recall:  {plan.model.said()}")
    for line in plan.changes.lines() or ["nothing: all of this is set already"]:
        say(f"To save: {line}")
    for note in plan.notes:
        say(f"Note:    {note}")


def _finish(plan: Plan, home: Path, say: Any) -> dict[str, Any]:
    """Activate, and run the doctor; all that was done for machines. Raises HermesPgvectorError."""
    from ..admin.common.embedded_server import borrowed_server
    from ..admin.common.installation import install_plugin
    from ..admin.common.saving import overruled
    from ..admin.doctor.checklist import as_json, examine, render_text
    from ..config.activation import activate, enable

    notes = list(plan.notes)
    now = load_settings(None, home).settings
    notes += [f"{name} in the environment overrules what was saved; unset it" for name in overruled(plan.wanted, now)]
    if not (home / "plugins" / "pgvector" / "__init__.py").is_file():
        say(f"plugin {install_plugin(home).action}")
    how = activate(home, None)
    enable(home, None)
    say(f"\nSaved. Memory provider: pgvector ({how})\n")
    environ = environment(home)
    keys = {
        "api_key": environ.get(now.embed_api_key_env, ""),
        "rerank_key": environ.get(now.rerank_api_key_env, ""),
    }
    with borrowed_server(now) as locate:
        checks = examine(now, home, locate=locate, **keys)
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
    """What is configured, without secrets, and first what keeps memory from working, as far as a few seconds tell."""
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
    """Why the database cannot be used now; empty when it can. An embedded one that is down starts when it is needed."""
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
    """The error that an agent of this home has right now; empty when none has."""
    from ..admin.common.spool_views import inspect_spools
    from ..admin.status.report import last_error

    reports = [view.report for view in inspect_spools(home) if view.living]
    current = [report for report in reports if report.get("last_error") and not report.get("last_error_over_at")]
    return last_error(current[0]).removeprefix("last error ") if current else ""


def _recall(settings: Settings) -> str:
    url = settings.embed_url.strip()
    if not url:
        return "by words (no embed_url)"
    return f"by meaning and words ({url if is_local(url) else settings.embed_model})"


def _shown(value: object) -> object:
    """A value as a form may show it: what holds a password is left out, and so left alone."""
    if isinstance(value, str) and masked(value) != value:
        return ""
    return value if isinstance(value, bool) else Holds(value)
