"""Old turns made smaller without a language model: measured before, done in short transactions, logged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from ...domain.dates import parse_when
from ...domain.errors import ConfigurationError, WrongUsage
from ...domain.languages import Languages
from ...domain.theme import ThemeRules
from ...store import compact_rows as store
from ...store import old_turns as clock
from ...store.audit_log import record
from ...store.connection import DeadlineConnection
from ..common import new_vectors
from ..common import theme_rows as all_themes
from ..common.progress import ProgressLine, progress
from ..common.theme_names import existing
from .recall_loss import Loss, choose_questions, learn_scale, measure

_SLICE = 500  # rows of one transaction
_EXAMPLES = 3
_EXAMPLE_CHARS = 200
_TOLD_FROM = 20  # questions; fewer are asked before anybody wonders
_LEARNT_FROM = 60  # questions; as many teach the scale of signatures well enough
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be done with turns of the themes that were said before `older_than`, a date or "180d".

    `similar` is the cosine from which two turns with the same words say the same. `sample`: how many turns are asked
    to find out what gets harder to find; 0 asks none.
    """

    themes: tuple[str, ...] = ()
    every_theme: bool = False
    older_than: str = "180d"
    duplicates: bool = True
    vectors: bool = True
    similar: float = 0.95
    sample: int = 100

    def arguments(self) -> dict[str, Any]:
        """The wish as it stands in the log."""
        given = asdict(self) | {"theme": "*" if self.every_theme else ", ".join(self.themes)}
        return {name: given[name] for name in ("theme", "older_than", "duplicates", "vectors", "similar")}


@dataclass(frozen=True, slots=True)
class Portion:
    """What is to be done in one theme: `pairs` are turns that go, each with the one that stays for it."""

    share: store.Share
    pairs: Mapping[int, int]
    pair_bytes: int

    def as_json(self) -> dict[str, Any]:
        """The portion for machines, and for a table."""
        return asdict(self.share) | {"duplicates": len(self.pairs), "duplicate_bytes": self.pair_bytes}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a wish means now, what it saves, and what it costs. Bytes of the graph are a share of its size."""

    wish: Wish
    before: datetime
    portions: tuple[Portion, ...]
    sizes: store.Sizes
    scale: store.Scale
    loss: Loss | None
    examples: tuple[dict[str, Any], ...]
    logged: bool

    def totals(self) -> dict[str, int]:
        """Rows, exact bytes of vectors and of turns that go, and about how much smaller the indexes could be."""
        vectors = sum(each.share.vectors for each in self.portions)
        duplicates = sum(len(each.pairs) for each in self.portions)
        sizes = self.sizes
        # The catalogue knows nothing of what has come since the last vacuum.
        counted = max(1, sum(each.share.turns for each in self.portions))
        graph = sizes.graph_bytes * min(1.0, vectors / max(sizes.graph_rows, counted))
        others = (sizes.index_bytes - sizes.graph_bytes) * min(1.0, duplicates / max(sizes.rows, counted))
        return {
            "vectors": vectors,
            "vector_bytes": sum(each.share.vector_bytes for each in self.portions),
            "duplicates": duplicates,
            "duplicate_bytes": sum(each.pair_bytes for each in self.portions),
            "index_bytes_about": round(graph + others),
        }

    def as_json(self, done: Mapping[str, int] | None = None) -> dict[str, Any]:
        """The plan for machines; `done` counts what was changed."""
        return {
            "done": done is not None,
            "before": self.before,
            "themes": [each.as_json() for each in self.portions],
            **self.totals(),
            "sizes": asdict(self.sizes),
            "recall": None if self.loss is None else asdict(self.loss),
            "examples": list(self.examples),
            **({} if done is None else {"changed": dict(done)}),
        }


def themes_meant(conn: DeadlineConnection, names: Sequence[str], *, every: bool, rules: ThemeRules) -> dict[str, int]:
    """The themes that an operator means, each with how many turns it has.

    Raises WrongUsage, InvalidArgument for a theme that is not there.
    """
    if every == bool(names):
        raise WrongUsage("name the themes with --theme, or all of them with --all-themes, not both")
    if every:
        return {str(row["theme"]): int(row["turns"]) for row in all_themes.every_theme(conn)}
    return {theme: int(counts["turns"]) for theme, counts in (existing(conn, name, rules) for name in names)}


def moment(conn: DeadlineConnection, older_than: str) -> tuple[datetime, bool]:
    """The moment that `older_than` means by the server's clock, and whether we may log. Raises WrongUsage."""
    now, may_record = clock.clock(conn)
    before = parse_when(older_than, "--older-than", now=now)
    if before is None or before > now:
        raise WrongUsage(f"--older-than must be a time before now, like 180d or 2026-01-01, not {older_than!r}")
    return before, may_record


def plan(conn: DeadlineConnection, wish: Wish, rules: ThemeRules, languages: Languages) -> Plan:
    """Find out what a wish means, saves and costs; changes nothing. Raises InvalidArgument."""
    store.prepare(conn)
    if new_vectors.running(conn) is not None:
        raise ConfigurationError("the embedding model is being changed: compact again once reembed is through")
    themes = themes_meant(conn, wish.themes, every=wish.every_theme, rules=rules)
    before, may_record = moment(conn, wish.older_than)
    portions = []
    with progress("looked through", sum(themes.values())) as advance:
        for theme, count in themes.items():
            portion = _portion(conn, wish, theme, before)
            advance(count)
            if portion.share.vectors or portion.pairs:
                portions.append(portion)
    turns = {each.share.theme: each.share.turns for each in portions}
    asked = choose_questions(conn, turns, max(wish.sample, _LEARNT_FROM)) if turns else []
    scale = learn_scale(conn, asked[:_LEARNT_FROM])
    loss = None
    if questions := asked[: wish.sample]:
        line = ProgressLine("asked", len(questions)) if len(questions) >= _TOLD_FROM else None
        loss = measure(
            conn,
            questions,
            scale,
            before,
            replaced={id: kept for each in portions for id, kept in each.pairs.items()},
            cooling=wish.vectors,
            languages=lambda theme: (languages.of(theme),),
            advance=line.advance if line else lambda count: None,
        )
        if line:
            line.finish()
    examples = [one for each in portions for one in _examples(conn, each)][:_EXAMPLES]
    return Plan(wish, before, tuple(portions), store.sizes(conn), scale, loss, tuple(examples), may_record)


def _portion(conn: DeadlineConnection, wish: Wish, theme: str, before: datetime) -> Portion:
    share = store.share(conn, theme, before)
    if not wish.vectors:
        share = store.Share(theme, share.turns, share.old_turns, 0, 0)
    pairs: dict[int, int] = {}
    taken = 0
    if wish.duplicates:
        for some in _pairs(store.candidates(conn, theme, before)):
            said_again = store.same(conn, theme, some, wish.similar)
            pairs |= {id: some[id] for id in said_again}
            taken += sum(said_again.values())
    return Portion(share, pairs, taken)


def _pairs(groups: Sequence[Sequence[int]]) -> Iterator[dict[int, int]]:
    """Each turn of a group with the newest one, so many at a time."""
    some: dict[int, int] = {}
    for newest, *older in groups:
        for id in older:
            some[id] = newest
            if len(some) == _SLICE:
                yield some
                some = {}
    if some:
        yield some


def _examples(conn: DeadlineConnection, portion: Portion) -> Iterator[dict[str, Any]]:
    some = dict(list(portion.pairs.items())[:_EXAMPLES])
    told = store.examples(conn, portion.share.theme, [*some, *some.values()], _EXAMPLE_CHARS) if some else {}
    for id, kept in some.items():
        if id in told and kept in told:
            yield {"theme": portion.share.theme, "goes": told[id], "stays": told[kept]}


@dataclass
class Compaction:
    """A plan that is being carried out. Killed or interrupted it leaves whole transactions, and can be run again."""

    conn: DeadlineConnection
    plan: Plan
    done: dict[str, int] = field(default_factory=lambda: {"duplicates": 0, "vectors": 0})

    def run(self) -> dict[str, int]:
        """Do what the plan means; returns how many turns were collapsed and how many vectors dropped.

        Raises ConfigurationError where row-level security forbids to drop any.
        """
        totals = self.plan.totals()
        meant = {name: totals[name] for name in self.done}
        if not any(meant.values()):
            return self.done
        if meant["vectors"]:
            self._calibrate()
        self._record("begun", meant)
        state = "interrupted"
        try:
            with progress("compacted", sum(meant.values())) as advance:
                for kind, count in self._steps():
                    self.done[kind] += count
                    advance(count)
            state = "done"
        finally:
            if not self.conn.closed:
                self._record(state, self.done)
        return self.done

    def _steps(self) -> Iterator[tuple[str, int]]:
        for portion in self.plan.portions:
            theme = portion.share.theme
            for some in _slices(list(portion.pairs.items())):
                with self.conn.transaction():
                    all_themes.begin(self.conn)
                    count = store.collapse(self.conn, theme, dict(some), self.plan.wish.similar)
                yield "duplicates", count
            if portion.share.vectors:
                yield from self._cool(theme)

    def _cool(self, theme: str) -> Iterator[tuple[str, int]]:
        for ids in _slices(store.cooling(self.conn, theme, self.plan.before)):
            with self.conn.transaction():
                all_themes.begin(self.conn)
                count = store.cool(self.conn, theme, ids)
            yield "vectors", count

    def _calibrate(self) -> None:
        with self.conn.transaction():
            if not store.calibrate(self.conn, self.plan.scale):
                raise ConfigurationError(
                    "row-level security keeps this role from changing what stands for every theme: "
                    "add --admin-dsn DSN, or --keep-vectors"
                )

    def _record(self, state: str, counts: Mapping[str, int]) -> None:
        if self.plan.logged:
            with self.conn.transaction():
                record(self.conn, "compact", self.plan.wish.arguments() | {"state": state}, counts)


def vacuum(conn: DeadlineConnection, *, full: bool) -> tuple[store.Sizes, store.Sizes]:
    """Give the space back; returns the sizes before and after. Raises ConfigurationError for a role that may not."""
    require_owner(conn)
    before = store.sizes(conn)
    store.vacuum(conn, full=full)
    return before, store.sizes(conn)


def require_owner(conn: DeadlineConnection) -> None:
    """Raises ConfigurationError for a role that may not vacuum the tables."""
    if not store.may_vacuum(conn):
        raise ConfigurationError("--vacuum needs the owner of the tables: add --admin-dsn DSN")


def _slices(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), _SLICE):
        yield items[start : start + _SLICE]
