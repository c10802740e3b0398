"""Compaction of old turns without a language model: measured first, done in short transactions, and logged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from pgvector.psycopg import register_vector

from ...domain.dates import parse_when
from ...domain.errors import ConfigurationError, WrongUsage
from ...domain.gil import in_slices
from ...domain.theme import Languages, ThemeRules
from ...store.connection import DeadlineConnection
from ..common import new_vectors
from ..common import theme_rows as all_themes
from ..common.operators import clock, logged
from ..common.progress import progress
from ..common.repeat import held_back
from ..common.theme_names import ThemeChoice
from . import compact_rows as store
from .recall_loss import Compacted, RecallLoss, choose_questions, measure_loss, measure_scale

_SLICE = 500  # rows in one transaction
_EXAMPLES = 3
_EXAMPLE_CHARS = 200
_TOLD_FROM = 20  # questions; fewer are asked before anybody wonders
_SCALE_QUESTIONS = 60  # this many measure the scale of signatures well enough


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """Which turns of the themes to compact, and how: those from before `older_than`, a date or "180d".

    `similar` is the cosine from which two turns with the same words count as the same. `sample` is the number of turns
    used as questions to measure the loss of recall; with 0, none are.
    """

    themes: ThemeChoice
    older_than: str = "180d"
    duplicates: bool = True
    vectors: bool = True
    similar: float = 0.95
    sample: int = 100

    def arguments(self) -> dict[str, Any]:
        """Return the options as they are written to the log."""
        given = asdict(self) | {"theme": str(self.themes)}
        return {name: given[name] for name in ("theme", "older_than", "duplicates", "vectors", "similar")}


@dataclass(frozen=True, slots=True)
class ThemePlan:
    """The plan for one theme: `duplicates` are the turns to delete, each with the one that stays for it."""

    share: store.Share
    duplicates: Mapping[int, int]
    duplicate_bytes: int

    def as_json(self) -> dict[str, Any]:
        """Return it for JSON, and for a table."""
        return asdict(self.share) | {
            "duplicates": len(self.duplicates),
            "duplicate_bytes": self.duplicate_bytes,
        }


@dataclass(frozen=True, slots=True)
class CompactPlan:
    """The effect of the options now: savings and costs. Bytes of the graph are estimated as a share of its size."""

    options: CompactOptions
    before: datetime
    themes: tuple[ThemePlan, ...]
    sizes: store.Sizes
    scale: store.Scale
    loss: RecallLoss | None
    examples: tuple[dict[str, Any], ...]

    def totals(self) -> dict[str, int]:
        """Return counts, exact bytes of the vectors and turns to drop, and about how many bytes indexes could save."""
        vectors = sum(each.share.vectors for each in self.themes)
        duplicates = sum(len(each.duplicates) for each in self.themes)
        sizes = self.sizes
        # The catalogue does not include rows stored since the last vacuum.
        counted = max(1, sum(each.share.turns for each in self.themes))
        graph = sizes.graph_bytes * min(1.0, vectors / max(sizes.graph_rows, counted))
        others = (sizes.index_bytes - sizes.graph_bytes) * min(1.0, duplicates / max(sizes.rows, counted))
        return {
            "vectors": vectors,
            "vector_bytes": sum(each.share.vector_bytes for each in self.themes),
            "duplicates": duplicates,
            "duplicate_bytes": sum(each.duplicate_bytes for each in self.themes),
            "index_bytes_about": round(graph + others),
        }

    def as_json(self, done: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Return the plan for JSON; `done` counts what was changed."""
        return {
            "done": done is not None,
            "before": self.before,
            "themes": [each.as_json() for each in self.themes],
            **self.totals(),
            "sizes": asdict(self.sizes),
            "recall": None if self.loss is None else asdict(self.loss),
            "examples": list(self.examples),
            **({} if done is None else {"changed": dict(done)}),
        }


def cutoff(conn: DeadlineConnection, older_than: str) -> datetime:
    """Return the time that `older_than` stands for by the server's clock. Raises WrongUsage."""
    now, _ = clock(conn)
    before = parse_when(older_than, "--older-than", zone=None, now=now)
    if before is None or before > now:
        raise WrongUsage(f"--older-than must be a time before now, like 180d or 2026-01-01, not {older_than!r}")
    return before


def plan_compaction(
    conn: DeadlineConnection, options: CompactOptions, rules: ThemeRules, languages: Languages
) -> CompactPlan:
    """Determine what the options would do, save and cost; change nothing. Raises InvalidArgument."""
    register_vector(conn)
    if new_vectors.running(conn) is not None:
        raise ConfigurationError("the embedding model is being changed: compact again once reembed is through")
    counts = {theme: int(held["turns"]) for theme, held in options.themes.held(conn, rules).items()}
    before = cutoff(conn, options.older_than)
    themes = _theme_plans(conn, options, counts, before)
    turns = {each.share.theme: each.share.turns for each in themes}
    questions = choose_questions(conn, turns, max(options.sample, _SCALE_QUESTIONS)) if turns else []
    scale = measure_scale(conn, questions[:_SCALE_QUESTIONS])
    replaced = {id: kept for each in themes for id, kept in each.duplicates.items()}
    loss = _measured(conn, questions[: options.sample], Compacted(before, replaced, options.vectors, scale), languages)
    examples = tuple(islice((one for each in themes for one in _examples(conn, each)), _EXAMPLES))
    return CompactPlan(options, before, themes, store.sizes(conn), scale, loss, examples)


def _theme_plans(
    conn: DeadlineConnection, options: CompactOptions, counts: Mapping[str, int], before: datetime
) -> tuple[ThemePlan, ...]:
    """Return the plans of the themes in which there is something to do."""
    plans: list[ThemePlan] = []
    with progress("looked through", sum(counts.values())) as advance:
        for theme, count in counts.items():
            plans.append(_theme_plan(conn, options, theme, before))
            advance(count)
    return tuple(each for each in plans if each.share.vectors or each.duplicates)


def _theme_plan(conn: DeadlineConnection, options: CompactOptions, theme: str, before: datetime) -> ThemePlan:
    duplicates: dict[int, int] = {}
    taken = 0
    if options.duplicates:
        groups = store.candidates(conn, theme, before)
        again = [(id, newest) for newest, *older in groups for id in older]
        for some in map(dict, in_slices(again, _SLICE)):
            said_again = store.same(conn, theme, some, options.similar)
            duplicates |= {id: some[id] for id in said_again}
            taken += sum(said_again.values())
    share = store.share(conn, theme, before, duplicates)
    if not options.vectors:
        share = replace(share, vectors=0, vector_bytes=0)
    return ThemePlan(share, duplicates, taken)


def _measured(
    conn: DeadlineConnection, questions: Sequence[store.Asked], compacted: Compacted, languages: Languages
) -> RecallLoss | None:
    if not questions:
        return None
    with progress("asked", len(questions), told_from=_TOLD_FROM) as advance:
        return measure_loss(conn, questions, compacted, languages, advance)


def _examples(conn: DeadlineConnection, plan: ThemePlan) -> Iterator[dict[str, Any]]:
    some = dict(islice(plan.duplicates.items(), _EXAMPLES))
    told = store.examples(conn, plan.share.theme, [*some, *some.values()], _EXAMPLE_CHARS) if some else {}
    for id, kept in some.items():
        if id in told and kept in told:
            yield {"theme": plan.share.theme, "goes": told[id], "stays": told[kept]}


@dataclass
class Compaction:
    """A plan being carried out. A killed or interrupted run leaves complete transactions, and can be repeated."""

    conn: DeadlineConnection
    plan: CompactPlan
    done: dict[str, int] = field(default_factory=lambda: {"duplicates": 0, "vectors": 0})

    def run(self) -> dict[str, int]:
        """Carry out the plan; return how many turns were collapsed and how many vectors dropped.

        Raises ConfigurationError if row-level security forbids dropping vectors.
        """
        totals = self.plan.totals()
        planned = {name: totals[name] for name in self.done}
        if not any(planned.values()):
            return self.done
        if planned["vectors"]:
            with self.conn.transaction():
                if not store.calibrate(self.conn, self.plan.scale):
                    raise ConfigurationError(
                        "row-level security keeps this role from changing what stands for every theme: "
                        "add --admin-dsn DSN, or --keep-vectors"
                    )
        with (
            logged(self.conn, "compact", self.plan.options.arguments(), self.done, planned),
            progress("compacted", sum(planned.values())) as advance,
        ):
            for each in self.plan.themes:
                for some in in_slices(list(each.duplicates.items()), _SLICE):
                    similar = self.plan.options.similar
                    collapse = partial(store.collapse, self.conn, each.share.theme, dict(some), similar)
                    advance(self._step("duplicates", collapse))
                if each.share.vectors:
                    self._cool(each.share.theme, advance)
        return self.done

    def _cool(self, theme: str, advance: Callable[[int], None]) -> None:
        with held_back():
            found = store.cooling(self.conn, theme, self.plan.before)
        for ids in in_slices(found, _SLICE):
            advance(self._step("vectors", partial(store.cool, self.conn, theme, ids)))

    def _step(self, kind: str, change: Callable[[], int]) -> int:
        """Make a change in a transaction of its own, and count it; return how many rows it changed."""
        with held_back():
            with self.conn.transaction():
                all_themes.begin(self.conn)
                count = change()
            self.done[kind] += count
        return count


def vacuum(conn: DeadlineConnection, *, full: bool) -> tuple[store.Sizes, store.Sizes]:
    """Vacuum the tables; return the sizes before and after. Raises ConfigurationError for a role that may not."""
    require_owner(conn)
    before = store.sizes(conn)
    store.vacuum(conn, full=full)
    return before, store.sizes(conn)


def require_owner(conn: DeadlineConnection) -> None:
    """Raise ConfigurationError for a role that may not vacuum the tables."""
    if not store.may_vacuum(conn):
        raise ConfigurationError("--vacuum needs the owner of the tables: add --admin-dsn DSN")
