"""The set-up wizard: a database and a model, each tried before anything is saved."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ...config.settings import Settings
from ...domain.commandline import typed
from ...domain.errors import HermesPgvectorError
from ...host.session_context import environment, load_settings
from ..common.activation import other_provider
from ..common.admin_login import resize_embedded
from ..common.embedded_server import borrowed_server
from ..common.migrations import migrate
from ..common.model_source import BUNDLED
from ..common.progress import building
from ..common.saving import API_KEY_ENV, Changes, changes_to, given_settings, require_editable
from .prompts import SetupOptions, Terminal
from .wizard_database import DatabaseChoice, DatabaseStep
from .wizard_model import ModelChoice, ModelStep

_T = TypeVar("_T")
_ENOUGH = 20  # failed answers to one question: after so many it is no person who answers


@dataclass(frozen=True)
class SetupPlan:
    """The wizard's findings, and the changes that it would write."""

    current: Settings
    wanted: Settings
    database: DatabaseChoice
    model: ModelChoice
    changes: Changes
    notes: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON, without secrets."""
        return {
            "database": self.database.describe(),
            "recall": self.model.describe(),
            "dims": self.wanted.dims,
            "changes": self.changes.as_dict(),
            "notes": [typed(note) for note in self.notes],
        }


class Wizard:
    """Asks for settings, or takes them from the options, and tries each. Writes only a model's files to the home."""

    def __init__(self, home: Path, options: SetupOptions, say: Callable[[str], None]) -> None:
        self._home = home
        self._options = options
        self._say = say
        loaded = load_settings(None, home)
        self._current = loaded.settings
        self._given = given_settings(home)
        self._notes = list(loaded.warnings)
        if before := other_provider(home):
            self._notes.append(f"the memory provider {before} is replaced; to have it back: hermes-pgvector deactivate")
        self._terminal = ask = Terminal(sys.stdout if sys.stdout.isatty() else sys.stderr)
        interview = (home, self._current, options, ask, say, self._notes)
        self._databases, self._models = DatabaseStep(*interview), ModelStep(*interview)

    def plan(self) -> SetupPlan:
        """Ask and try each answer; return the plan. Raises HermesPgvectorError if nobody can be asked again."""
        database = self._until_it_works(self._databases.take)
        model = self._until_it_works(lambda again: self._models.take(again, database))
        plan = self._planned(database, model)
        require_editable(self._home, plan.changes)
        return plan

    def confirmed(self) -> bool:
        """Ask whether to save the plan."""
        return self._terminal.agrees("\nSave this and activate it?", default=True)

    def carry_out(self, plan: SetupPlan) -> SetupPlan:
        """Fetch the model and prepare the database; return the final plan. Raises HermesPgvectorError."""
        model = plan.model
        if model.kind == "local" and model.trial is None and not model.unusable:
            try:
                model = self._models.fetched(model, plan.database)
            except HermesPgvectorError as exc:
                if self._options.embed_url is not None and not self._options.attended:
                    raise
                self._say(f"  the model cannot be had: {exc}")
                if self._options.attended:
                    model = self._until_it_works(lambda again: self._models.take(True, plan.database))
                    return self.carry_out(self._planned(plan.database, model))
                self._notes.append(f"recall goes by words: {exc}; to try again: hermes-pgvector model choose")
                model = ModelChoice("none")
        plan = self._planned(plan.database, model)
        self._prepare(plan)
        return plan

    def _planned(self, database: DatabaseChoice, model: ModelChoice) -> SetupPlan:
        dims = model.dims or (database.room.held.dims if database.room.held else self._free_dims())
        wanted = replace(
            self._current,
            dsn=database.dsn,
            embed_url=model.url,
            embed_model=model.name or self._current.embed_model,
            dims=dims,
        )
        if (api_key := self._key_to_keep(model)) is not None:
            wanted = replace(wanted, embed_api_key_env=API_KEY_ENV)
        # If nobody chose recall by words, `embed_url` is not written, so that `model choose` may pick a model later.
        decided = model.kind != "none" or self._options.attended or self._options.embed_url is not None
        explicit = ({"embed_url"} if decided else set()) | ({"dsn"} if self._options.dsn else set())
        changes = changes_to(self._home, self._current, wanted, explicit=frozenset(explicit), api_key=api_key)
        notes = list(self._notes)
        if database.later:
            notes.append(f"memory works when an admin has run: {database.migrate_command(dims)}")
        return SetupPlan(self._current, wanted, database, model, changes, tuple(notes))

    def _key_to_keep(self, model: ModelChoice) -> str | None:
        """Return the endpoint's key if it is to be written, "" to remove it, None to leave it."""
        if model.kind == "endpoint" and model.api_key is None and self._options.keep_api_key:
            return environment(self._home).get(self._current.embed_api_key_env) or None
        return model.api_key

    def _free_dims(self) -> int:
        """Return the vector length of a database without a model: unless it is set, that of the bundled model."""
        return self._current.dims if "dims" in self._given else BUNDLED.dims

    def _until_it_works(self, step: Callable[[bool], _T]) -> _T:
        """Run a step, and repeat it while it fails and somebody can be asked for another answer."""
        noted = len(self._notes)
        for number in range(_ENOUGH):
            try:
                return step(number > 0)
            except HermesPgvectorError as exc:
                if not self._options.attended or number == _ENOUGH - 1:
                    raise
                del self._notes[noted:]  # they are about an answer that does not count
                self._say(f"  that does not work: {exc}\n")
        raise AssertionError

    def _prepare(self, plan: SetupPlan) -> None:
        settings = plan.wanted
        if plan.database.admin_dsn:
            role = plan.database.found.role if plan.database.found else ""
            with building() as tell:
                report = migrate(plan.database.admin_dsn, dims=settings.dims, runtime_role=role, tell=tell)
            self._say("  " + (", ".join(f"applied {name}" for name in report.applied) or f"rights given to {role}"))
        elif not settings.dsn:
            held = plan.database.room.held
            # Tables of an earlier version are upgraded before, with the vector length that they have.
            if plan.model.resize and held and resize_embedded(replace(settings, dims=held.dims), settings.dims):
                self._say(f"  the embedded database takes vectors of {settings.dims} dimensions now")
            with borrowed_server(settings) as locate:
                locate()
