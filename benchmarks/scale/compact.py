"""What does `compact` save, and what does it cost in recall?

Real sentences with real vectors: each conversation of LoCoMo is a theme of a year, its sentences its turns in their
order, every 20th said again some weeks later. Measured are the command's own figures (of stored turns as questions,
before anything is changed), and beside them what LoCoMo's questions find before and after: by the vector leg against
an exact scan, and by words and meaning together of the ten rows found before.

    compaction.py --data locomo10.json --model-dir DIR [--cache FILE] [--json FILE]
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parents[number]) for number in (0, 1, 2)]
import common
import psycopg
import sentences
from pgvector import Vector
from pgvector.psycopg import register_vector

from hermes_memory_pgvector.admin.common.theme_names import ThemeChoice
from hermes_memory_pgvector.admin.compact import compaction
from hermes_memory_pgvector.domain.theme import Languages, ThemeRules
from hermes_memory_pgvector.domain.types import Filters, Scope
from hermes_memory_pgvector.recall.fuse import fuse
from hermes_memory_pgvector.store.pool import connect
from tests.support.candidates import lexical_candidates, vector_candidates

K = 10
DAYS = 365
AGAIN = 20  # one sentence of so many is said again
SHARES = (180, 30)  # days from which turns are old: half of them, nearly all


def load(admin: str, stored: sentences.Stored) -> None:
    """Each theme's sentences over a year, and some of them again."""
    now = datetime.now(UTC)
    seen: dict[str, int] = {}
    with psycopg.connect(admin, autocommit=True) as conn:
        register_vector(conn)
        with conn.cursor().copy(
            "COPY conversations (agent_identity, session_id, role, content, ts, embedding) FROM STDIN"
        ) as copy:
            for number, theme, text, vector in stored.rows:
                if theme == sentences.EVERYTHING:
                    continue
                place = seen[theme] = seen.get(theme, 0) + 1
                at = now - timedelta(days=DAYS * (1 - place / (stored.sizes[theme] + 1)))
                row = [theme, f"{theme}-{place // 20}", "user", text]
                copy.write_row([*row, at, Vector(vector)])
                if number % AGAIN == 0:
                    copy.write_row([*row, min(at + timedelta(days=21), now), Vector(vector)])
        conn.execute("VACUUM ANALYZE")


def answers(conn: Any, asked: Sequence[Any]) -> list[tuple[list[int], list[int], list[int]]]:
    """Of each question: the first ten by the vector leg, by both legs, and by an exact scan of what is there."""
    found = []
    for theme, _, text, vector in asked:
        scope, filters = Scope("theme", theme), Filters()
        with conn.transaction():
            conn.execute("SET LOCAL enable_sort = off")
            near = vector_candidates(conn, "turns", scope, filters, vector.tolist(), limit=100)
            words = lexical_candidates(conn, "turns", scope, filters, text, limit=100)
        scores = fuse(near, words)
        exact = conn.execute(
            "SELECT id FROM conversations WHERE agent_identity = %s ORDER BY (embedding <=> %s) + 0 LIMIT %s",
            (theme, Vector(vector), K),
        )
        both = sorted(scores, key=lambda row: (-scores[row], -row))[:K]
        found.append(([each.id for each in near][:K], both, [row[0] for row in exact]))
    return found


def shared(wanted: Sequence[int], found: Sequence[int], stays: dict[int, int]) -> float:
    """Which share of the wanted is found."""
    return sum(stays.get(each, each) in set(found) for each in wanted) / len(wanted)


def one(pg: common.Postgres, stored: sentences.Stored, asked: Sequence[Any], days: int, sample: int) -> dict[str, Any]:
    """Compact a new database and measure."""
    dsn = pg.database(stored.dims)
    admin = psycopg.conninfo.make_conninfo(
        pg.server.ensure().admin, dbname=psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
    )
    load(admin, stored)
    with connect(admin) as conn:
        register_vector(conn)
        before = answers(conn, asked)
        wish = compaction.CompactOptions(ThemeChoice(every=True), older_than=f"{days}d", sample=sample)
        planned = compaction.plan_compaction(conn, wish, ThemeRules(), Languages())
        stays = {id: kept for each in planned.themes for id, kept in each.duplicates.items()}
        compaction.Compaction(conn, planned).run()
        plain = compaction.vacuum(conn, full=False)
        full = compaction.vacuum(conn, full=True)
        after = answers(conn, asked)
    totals, loss = planned.totals(), planned.loss
    assert loss is not None
    turns = sum(each.share.turns for each in planned.themes)
    exact = [each[2] for each in before]
    return {
        "older than": f"{days}d",
        "turns": turns,
        "vectors dropped": totals["vectors"],
        "collapsed": totals["duplicates"],
        "MB of vectors": round(totals["vector_bytes"] / 1e6, 1),
        "told: index MB": round(totals["index_bytes_about"] / 1e6, 1),
        "tables MB before": round(plain[0].table_bytes / 1e6, 1),
        "after": round(full[1].table_bytes / 1e6, 1),
        "indexes MB before": round(plain[0].index_bytes / 1e6, 1),
        "then": round(full[1].index_bytes / 1e6, 1),
        "told: recall@10": f"{loss.before:.3f} -> {loss.after:.3f} +-{loss.margin:.3f}",
        "told: both legs": f"{loss.kept:.3f}",
        "asked: recall@10": " -> ".join(
            f"{statistics.fmean(shared(truth, each[0], stays) for truth, each in zip(exact, found, strict=True)):.3f}"
            for found in (before, after)
        ),
        "asked: both legs": round(
            statistics.fmean(shared(old[1], new[1], stays) for old, new in zip(before, after, strict=True)), 3
        ),
        "scale": f"{planned.scale.offset:.2f} + {planned.scale.slope:.2f} cos",
    }


def main() -> None:
    """Run it."""
    options = common.parser(__doc__)
    sentences.add_options(options)
    options.add_argument("--questions", type=int, default=300, help="of LoCoMo's (default: 300)")
    options.add_argument("--sample", type=int, default=200, help="stored turns that the command asks (default: 200)")
    args = options.parse_args()
    stored, asked = sentences.read(args.data, args.model_dir, args.cache, lambda *each: each)
    asked = [each for each in asked if each[0] != sentences.EVERYTHING]
    chosen = random.Random(common.SEED).sample(asked, min(args.questions, len(asked)))
    with common.postgres({"fsync": "off"}) as pg:
        rows = [one(pg, stored, chosen, days, args.sample) for days in SHARES]
    for row in rows:
        for name, value in row.items():
            print(f"{name:20} {value}")
        print()
    if args.json:
        common.report("compact", {"questions": len(chosen), "sample": args.sample}, rows, args.json)


if __name__ == "__main__":
    main()
