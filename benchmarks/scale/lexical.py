"""What a recall by words costs in a theme of 200,000 turns: rare and common words, phrases, slips, a whole question.

The rows hold generated sentences over a Zipf vocabulary; besides, one word stands in half of them, and others in
20,000, 1,000 and 10. They are asked for through the provider, without an embedder, and with the bare statements; words
that no row holds with pg_trgm in the database (`--trigrams`), if it is to be had.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path += map(str, Path(__file__).resolve().parents[:2])
import common
import psycopg
from psycopg.conninfo import make_conninfo
from words import COMMON, VOCABULARY, texts

from hermes_memory_pgvector.domain.types import Filters, Scope
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.store.lexical import lexical_candidates

DIMS = 384
THEME = "bench"
OTHERS = 50  # themes beside it
START = datetime(2024, 1, 1, tzinfo=UTC)

QUESTIONS = {
    "rare word": "barnacle",
    "word in 1,000 rows": "sextant",
    "word in 20,000 rows": "lighthouse",
    "word in half of all": COMMON,
    "rare and common": f"{COMMON} barnacle",
    "only common words": f"{COMMON} {VOCABULARY[0]} {VOCABULARY[1]} {VOCABULARY[2]}",
    "question of 8 words": " ".join(
        [COMMON, "lighthouse", "sextant", *(VOCABULARY[rank] for rank in (3, 40, 300, 2_000, 9_000))]
    ),
    "phrase, rare words": '"barnacle barnacle" sextant',
    "phrase, common words": f'"{VOCABULARY[0]} {COMMON}"',
    "a slip in a rare word": "lighthose",
    "two words of no row": "periwinckle marmelade",
}


def load(dsn: str, rows: int, others: int, *, settled: bool) -> None:
    """Fill the table: the theme's rows, and between them, in order of time, those of other themes.

    `settled` does at once what autovacuum does some minutes later.
    """
    dice = random.Random(common.SEED)
    elsewhere = texts(others, dice)
    step = max(1, rows // max(1, others))
    with psycopg.connect(dsn, autocommit=True) as conn:
        statement = "COPY conversations (session_id, agent_identity, role, content, ts) FROM STDIN (FORMAT binary)"
        with conn.cursor().copy(statement) as copy:
            copy.set_types(["text", "text", "text", "text", "timestamptz"])
            for row, text in enumerate(texts(rows, dice)):
                at = START + timedelta(minutes=row)
                role = "assistant" if row % 2 else "user"
                copy.write_row((f"s{row // 200}", THEME, role, text, at))
                if row % step == 0 and (other := next(elsewhere, None)) is not None:
                    copy.write_row((f"o{row // 200}", f"other-{row // step % OTHERS}", role, other, at))
        conn.execute("VACUUM ANALYZE conversations" if settled else "SELECT")


def p50_ms(ask: Callable[[], object], times: int) -> float:
    """Milliseconds of one call, the median of `times`, after two that warm up."""
    ask(), ask()
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        ask()
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken)


def measure(provider: PgvectorMemoryProvider, times: int) -> list[dict[str, Any]]:
    """One row a question: through the tool, and the store's statements alone."""
    assert provider.runtime is not None
    backend = provider.runtime.backend
    table = []
    for name, text in QUESTIONS.items():

        def statements(text: str = text) -> int:
            with backend.connection(60) as conn:
                conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")  # as a question has it
                return len(lexical_candidates(conn, "turns", Scope("theme", THEME), Filters(), text, limit=40))

        def tool(text: str = text) -> object:
            return provider.handle_tool_call("recall_conversation", {"query": text})

        bare, whole = p50_ms(statements, times), p50_ms(tool, times)
        table.append(
            {"question": name, "found": statements(), "tool_p50_ms": round(whole, 1), "words_p50_ms": round(bare, 1)}
        )
    for column in ("tool", "words"):
        rare = table[0][f"{column}_p50_ms"]
        for row in table:
            row[f"{column}_x_rare"] = round(row[f"{column}_p50_ms"] / rare, 2)
    return table


def main() -> None:
    """Load, ask, print."""
    options = common.parser(__doc__)
    options.add_argument("--rows", type=int, default=200_000, metavar="N", help="in the theme that is searched")
    options.add_argument("--others", type=int, default=50_000, metavar="N", help="in other themes")
    options.add_argument("--times", type=int, default=25, metavar="N", help="each question is asked")
    options.add_argument("--fresh", action="store_true", help="before the first vacuum and ANALYZE of the table")
    options.add_argument("--trigrams", action="store_true", help="with pg_trgm: words with a slip stand for others")
    options.add_argument("--dsn", metavar="DSN", help="a migrated database (dims 384) to use again, loaded when empty")
    args = options.parse_args()
    with contextlib.ExitStack() as stack:
        dsn = args.dsn or stack.enter_context(common.postgres()).database(DIMS)
        admin = dsn if args.dsn else make_conninfo(dsn, user="postgres")
        config = {"dsn": dsn, "dims": DIMS, "recall_deadline_s": 60}
        provider = stack.enter_context(common.provider(config, THEME))
        assert provider.runtime is not None
        provider.runtime.backend.bring_up()
        if not provider.runtime.backend.counts()["turns"]:
            load(admin, args.rows, args.others, settled=not args.fresh)
        if args.trigrams:
            with psycopg.connect(admin, autocommit=True) as conn:
                conn.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        table = measure(provider, args.times)
    common.report(
        "scale/lexical",
        {"rows": args.rows, "others": args.others, "fresh": args.fresh, "trigrams": args.trigrams},
        table,
        args.json,
    )


if __name__ == "__main__":
    main()
