"""What is fuzzed. A target takes any bytes, and fails when something is raised that is not its documented error."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from hermes_memory_pgvector.admin.common.retention_policy import RetentionPolicy
from hermes_memory_pgvector.admin.transfer import exchange_format
from hermes_memory_pgvector.admin.transfer.import_file import _check, _opened, _Reader
from hermes_memory_pgvector.admin.transfer.records import MemoryRecord, TurnRecord
from hermes_memory_pgvector.admin.transfer.sources.holographic import FactStore
from hermes_memory_pgvector.admin.transfer.sources.mem0 import configured
from hermes_memory_pgvector.admin.transfer.sources.source import Home, ImportDestination, SourceTally
from hermes_memory_pgvector.capture.sanitize import session_name
from hermes_memory_pgvector.capture.turn_filter import judge, own_words
from hermes_memory_pgvector.config import sources
from hermes_memory_pgvector.config.loading import coerce, load
from hermes_memory_pgvector.config.settings import FIELDS, Settings
from hermes_memory_pgvector.domain.chunks import chunk_spans, estimate_tokens
from hermes_memory_pgvector.domain.dates import parse_when
from hermes_memory_pgvector.domain.errors import ConfigurationError, HermesPgvectorError, InvalidArgument, WrongUsage
from hermes_memory_pgvector.domain.named_times import MAX_PERIODS, named_periods
from hermes_memory_pgvector.domain.operations import Operation, RememberMemory, encode
from hermes_memory_pgvector.domain.redaction import mask_dsn, masker, pattern_problem
from hermes_memory_pgvector.domain.text import both_ends, clean, clean_json, strip_injected
from hermes_memory_pgvector.domain.theme import (
    MAX_CHARS,
    Languages,
    Surface,
    ThemeRules,
    normalise_theme,
    session_themes,
)
from hermes_memory_pgvector.domain.types import Answer, Hit, Question
from hermes_memory_pgvector.host import recall_tools, write_tools
from hermes_memory_pgvector.host.session_context import Policy, SessionContext
from hermes_memory_pgvector.host.tool_registry import unknown_arguments
from hermes_memory_pgvector.host.tool_scopes import ToolScope
from hermes_memory_pgvector.recall.block import lines_of
from hermes_memory_pgvector.recall.excerpt import excerpt
from hermes_memory_pgvector.recall.render import quoted, render_block

from .spools import spool

_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
_NOW = datetime(2026, 5, 3, 12, tzinfo=UTC)


def _words(data: bytes, count: int) -> list[str]:
    """So many texts, of which any may be blank; bytes that are no UTF-8 as the host would pass them on."""
    pieces = data.split(b"\x1f", count - 1)
    return [piece.decode("utf-8", "surrogateescape") for piece in pieces] + [""] * (count - len(pieces))


def _json(data: bytes) -> Any:
    """Any JSON, NaN and infinities included; text where it is none."""
    try:
        return json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return data.decode("utf-8", "surrogateescape")


def _storable(text: str) -> None:
    """Postgres takes it."""
    text.encode()
    assert "\0" not in text


def theme(data: bytes) -> None:
    """Theme resolution: never raises, is idempotent, bounded, and no header can name a chat's theme."""
    key, platform, profile, workspace, default, word, identity_key = _words(data, 7)
    rules = ThemeRules.of(
        default=default,
        allowed=(word,) if word else (),
        aliases=(f"{word}={profile}",),
        identity_key=clean(identity_key),
    )
    found = session_themes(Surface(key, platform, profile, workspace), rules)
    for each in (found.turns, found.memories, found.files):
        assert each.name and each.name == each.name.strip() and len(each.name) <= MAX_CHARS
        _storable(each.name)
        assert not any(unicodedata.category(char) in _INVISIBLE for char in each.name), ascii(each.name)
        assert each.source == "chat" or not each.name.startswith("@") or each.name in rules.aliases.values()
        assert normalise_theme(each.name, rules.identity_key) == each.name
    context = SessionContext.from_host({"gateway_session_key": key, "platform": platform, "user_id": profile}, rules)
    for value in context.provenance(session_name(key, rules.identity_key), "").values():
        _storable(value)


def text(data: bytes) -> None:
    """What a hook does to a text: storable, masked once and for all, cut within bounds."""
    given, question = _words(data, 2)
    kept = clean(given)
    _storable(kept)
    assert clean(kept) == kept
    bare = own_words(strip_injected(kept))
    judge(bare, kept, 40)
    mask = masker(())
    masked, _ = mask.mask(kept)
    assert mask.mask(masked) == (masked, 0), ascii(masked)
    assert len(both_ends(kept, 100)) <= 100
    size = 10 + len(question) % 700
    piece = excerpt(kept, question, size, near=len(question) % (len(kept) + 1))
    assert len(piece) <= size and piece.removeprefix("…").removesuffix("…") in kept
    assert "\n" not in quoted(kept, question)
    spans = chunk_spans(kept, 64)
    assert spans[0][0] == 0 and spans[-1][1] == len(kept)
    assert all(later[0] <= earlier[1] and later[0] > earlier[0] for earlier, later in itertools.pairwise(spans))
    hits = [Hit("memories", 1, "t", "memory", None, kept, _NOW, 0.5)] if kept else []
    block, told = render_block(lines_of(hits), question, max_tokens=64)
    assert bool(block) == bool(told) and estimate_tokens(block) <= 2 * 64


def dates(data: bytes) -> None:
    """Dates of arguments and of questions: WrongUsage or a moment with a zone; at most so many periods."""
    (given,) = _words(data, 1)
    for end in (False, True):
        try:
            found = parse_when(given, "since", zone=UTC, end=end, now=_NOW)
        except WrongUsage:
            continue
        assert found is None or found.tzinfo is not None
    periods = named_periods(given, _NOW)
    assert len(periods) <= MAX_PERIODS and all(each.start < each.end for each in periods)


def config(data: bytes) -> None:
    """config.yaml, .env, the form and the environment: never raises, and what comes out passes its own checks."""
    kind, _, body = data.partition(b"\n")
    if kind == b"yaml":
        section, _ = sources._parse_config(Path("config.yaml"), body)
    else:
        section = _json(body)
    env = dict(sources._parse_dotenv(body).assigned)
    form = sources._parse_form(body)
    loaded = load(section, {name: value for name, value in env.items() if "\0" not in value}, form)
    settings = loaded.settings
    hash(settings)
    repr(settings).encode()
    for field in FIELDS:
        value = getattr(settings, field.key)
        assert coerce(field, value) == value or value != value, field.key
    assert load(dataclasses.asdict(settings), {}).settings == settings
    for warning in loaded.warnings:
        assert len(warning) < 1000 and warning.isprintable(), ascii(warning)
    policy = Policy.of(settings)
    policy.rules.resolve_name("x")
    RetentionPolicy(settings.retention, settings.identity_key).of("x")
    Languages(settings.text_language, settings.text_languages).of("x")
    assert not any(map(pattern_problem, settings.mask_patterns))


def dsn(data: bytes) -> None:
    """Connection strings: the password is nowhere in what is shown of them."""
    given, secret = _words(data, 2)
    mask_dsn(given, secret)
    if len(secret) >= 6 and secret.isalnum() and secret not in given and secret not in "password hermes postgresql":
        for shown in (
            f"postgresql://hermes:{secret}@host/db {given}",
            f"{given} password={secret}",
            f"{given} password = '{secret}' host=x",
        ):
            assert secret not in mask_dsn(shown), ascii(shown)
            assert mask_dsn(mask_dsn(shown)) == mask_dsn(shown)


def arguments(data: bytes) -> None:
    """Arguments of the tools, any JSON: an answer in JSON, and only what the store understands is asked or written."""
    name, _, body = data.partition(b"\n")
    tool, given = name.decode("utf-8", "replace"), _json(body)
    settings = Settings(tools=("remember", "forget", "memory_profile"))
    context = SessionContext.from_host({"gateway_session_key": "marketing"}, Policy.of(settings).rules)

    def recall(stores: object, asked: Question) -> Answer:
        assert asked.text.strip() and len(asked.text) <= recall_tools.QUESTION_MAX_CHARS
        assert 1 <= asked.limit <= recall_tools.MAX_LIMIT and 0 <= asked.offset <= recall_tools.MAX_OFFSET
        _storable(asked.text)
        _storable(asked.scope.theme)
        since, until = asked.filters.since, asked.filters.until
        assert all(each is None or each.tzinfo is not None for each in (since, until))
        assert since is None or until is None or since < until
        return Answer((Hit("memories", 1, "t", "memory", None, "Ada owns the port", _NOW, 0.5),), "hybrid")

    args = given if isinstance(given, dict) else {}
    desk = _desk(settings, context)
    asked = cast("Any", SimpleNamespace(**{**vars(desk.runtime), "searcher": SimpleNamespace(recall=recall, zone=UTC)}))
    here = ToolScope(asked, context.place, "session", settings, desk.policy, desk.ends)

    def answer() -> recall_tools.Result:
        unknown_arguments(tool, args, settings.tools)
        if tool in settings.tools:
            return write_tools.answer(tool, args, desk)
        return recall_tools.answer(tool, args, here, turns="")

    _check_answer(answer)


def _check_answer(answer: Callable[[], recall_tools.Result]) -> None:
    try:
        said = recall_tools.as_json(answer())
    except HermesPgvectorError as exc:
        assert str(exc)
        return
    json.loads(said, parse_constant=_no_constants)
    said.encode("utf-8", "surrogatepass")


def _no_constants(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def _desk(settings: Settings, context: SessionContext) -> write_tools.WriteContext:
    """A desk whose database is away, and whose spool takes what Postgres would take."""

    def submit(op: Operation) -> bool:
        written = encode(op)
        json.loads(written, parse_constant=_no_constants)
        _storable(written.replace("\\u0000", "\0"))
        assert isinstance(op, RememberMemory) and op.content.strip() and op.target in ("memory", "user")
        return True

    @contextmanager
    def connection(timeout_s: float) -> Iterator[None]:
        raise HermesPgvectorError("away")
        yield

    runtime = SimpleNamespace(
        settings=settings, home=Path(), counts=Counter(),
        backend=SimpleNamespace(connection=connection, problem="away"),
        writer=SimpleNamespace(flush_own=lambda timeout_s: 0, deliver=lambda op, timeout_s: "waiting", in_memory=int),
        searcher=SimpleNamespace(recall=lambda stores, asked: Answer((), "hybrid"), zone=UTC),
        mirror=SimpleNamespace(entries=set, origin="x"),
    )  # fmt: skip
    return write_tools.WriteContext(
        cast("Any", runtime), context, Policy.of(settings), {}, lambda: True, submit, time.monotonic() + 60
    )


def metadata(data: bytes) -> None:
    """Metadata and contents of any shape: JSON that Postgres takes, without NaN, at most so deep."""
    given = _json(data)
    shaped = clean_json(given)
    written = json.dumps(shaped, allow_nan=False)
    assert clean_json(json.loads(written)) == json.loads(written)
    _storable(json.dumps(shaped, ensure_ascii=False, allow_nan=False))
    _storable(clean(given))
    if isinstance(given, dict):
        Policy.of(Settings()).keep.metadata(given, Counter())


def exported(data: bytes) -> None:
    """Files for `import`: ConfigurationError or rows, and a row that was read is written and read the same."""
    with tempfile.NamedTemporaryFile(prefix="fuzz-") as file:
        file.write(data)
        file.flush()
        for salvage in (False, True):
            try:
                with _opened(Path(file.name)) as stream:
                    _check(stream, salvage=salvage)
                with _opened(Path(file.name)) as stream:
                    reader = _Reader(stream)
                    reader.header()
                    rows = list(reader.rows())
            except ConfigurationError as exc:
                assert str(exc)
                continue
            for row in rows:
                _read_again(row)
    for number, line in enumerate(data.splitlines()):
        try:
            _read_again(exchange_format.read_row(line, number))
        except InvalidArgument as exc:
            assert str(exc).isprintable()


def _read_again(row: Any) -> None:
    line = (
        exchange_format.removed_line(row) if isinstance(row, exchange_format.Removed) else exchange_format.row_line(row)
    )
    again = exchange_format.read_row(line, 1)
    if isinstance(row, exchange_format.Removed):
        assert again == row
        return
    vectors = (row.embedding, *(part.vector for part in row.parts))
    if not any(math.isnan(number) for vector in vectors for number in vector or ()):
        assert isinstance(again, (MemoryRecord, TurnRecord))
        # A lone surrogate becomes "?" once.
        assert exchange_format.row_line(again) == line


def foreign(data: bytes) -> None:
    """Files of other providers, mem0.json and SQLite, damaged anyhow: ConfigurationError or records."""
    destination = ImportDestination(
        locate=lambda said: SessionContext.from_host(said, ThemeRules()),
        writes=lambda kind: True,
        captured=lambda session: (),
        said_in=lambda theme, session: set(),
        noted_entries=lambda origin, theme: {},
        stored_text=str,
        rules=ThemeRules(),
        min_chars=1,
    )
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        home = Home("default", Path(folder))
        if data[:6] == b"SQLite":
            file = Path(folder, "memory_store.db")
            file.write_bytes(data)
            source: Any = FactStore(home, destination)
        else:
            Path(folder, "mem0.json").write_bytes(data)
            source = None
        try:
            if source is None:
                configured(home)
            else:
                source.total()
                for record in source.records(SourceTally()):
                    assert record.content and record.created_at.tzinfo is not None
        except ConfigurationError as exc:
            assert str(exc)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "theme": theme, "text": text, "dates": dates, "config": config, "dsn": dsn, "arguments": arguments,
    "metadata": metadata, "spool": spool, "export": exported, "foreign": foreign,
}  # fmt: skip
