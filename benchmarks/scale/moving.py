"""What it takes to move a database: export, import and copy, with and without vectors, in time and in memory.

Turns of everyday length in 50 themes, with a vector each. Each command runs in a process of its own; `peak` is the most
memory that process had. Beside them the floor: pg_dump, and pg_restore into an empty database. An import with vectors
builds the graph of the other database row by row, as pg_restore does at once, and `index build` after it.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path += map(str, Path(__file__).resolve().parents[:2])
import common
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from words import texts

from hermes_memory_pgvector.server.binaries import find_binaries

DIMS = 384
START = datetime(2025, 1, 1, tzinfo=UTC)
THEMES = 50


def load(dsn: str, rows: int) -> None:
    """Fill the table with rows of made vectors."""
    dice = random.Random(common.SEED)
    with psycopg.connect(dsn, autocommit=True) as conn:
        made = [str([round(dice.gauss(0, 1), 5) for _ in range(DIMS)]) for _ in range(1000)]
        columns = "session_id, agent_identity, role, content, ts, embedding"
        with conn.cursor().copy(f"COPY conversations ({columns}) FROM STDIN".encode()) as copy:
            for number, text in enumerate(texts(rows, dice)):
                theme = f"theme-{number // 50 % THEMES + 1}"
                at = START + timedelta(milliseconds=number)
                copy.write_row((f"s{number // 50}", theme, "user", text, at, made[number % 1000]))
        conn.execute("UPDATE hermes_embedding SET model = 'made'")
        conn.execute("ANALYZE conversations")


def ran(home: Path, *command: str) -> dict[str, float]:
    """Seconds and megabytes of a command."""
    began = time.monotonic()
    with subprocess.Popen(command, env={**os.environ, "HERMES_HOME": str(home)}, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = process.stderr.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command}: {said}")
    return {"s": round(time.monotonic() - began, 1), "peak_mb": round(usage.ru_maxrss / 1024)}


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    args = parser.parse_args()
    ours = (sys.executable, "-P", "-m", "hermes_memory_pgvector.cli")
    place = Path(tempfile.mkdtemp(prefix="hermes-bench-"))
    found: list[dict[str, Any]] = []
    try:
        with common.postgres() as server:
            source, whole, bare, copied, restored, bulk = (server.database(DIMS) for _ in range(6))
            admin = server.server.ensure().admin

            def home(dsn: str) -> Path:
                folder = place / str(conninfo_to_dict(dsn)["dbname"])
                folder.mkdir(exist_ok=True)
                section = f'plugins:\n  pgvector:\n    dsn: "{dsn}"\n    dims: {DIMS}\n'
                (folder / "config.yaml").write_text(section)
                return folder

            def step(name: str, dsn: str, *command: str, size: Path | None = None) -> None:
                figures = ran(home(dsn), *command)
                mb = {"file_mb": round(size.stat().st_size / 1e6)} if size else {}
                found.append({"step": name, **figures, "rows_s": round(args.rows / figures["s"]), **mb})
                print(found[-1], flush=True)

            load(make_conninfo(admin, dbname=conninfo_to_dict(source)["dbname"]), args.rows)
            for dsn in (whole, copied, bulk):
                with psycopg.connect(make_conninfo(admin, dbname=conninfo_to_dict(dsn)["dbname"])) as conn:
                    conn.execute("UPDATE hermes_embedding SET model = 'made'")
            vectors, texts_only, packed = place / "v.jsonl", place / "t.jsonl", place / "v.jsonl.gz"
            step("export --vectors", source, *ours, "export", str(vectors), "--vectors", size=vectors)
            step("export", source, *ours, "export", str(texts_only), size=texts_only)
            step("export --vectors .gz", source, *ours, "export", str(packed), "--vectors", size=packed)
            step("import (texts only)", bare, *ours, "import", str(texts_only))
            step("the same again", bare, *ours, "import", str(texts_only))
            step("import (vectors)", whole, *ours, "import", str(vectors))
            login = ("--admin-dsn", make_conninfo(admin, dbname=conninfo_to_dict(bulk)["dbname"]))
            step("index drop", bulk, *ours, "index", "drop", "--yes", *login)
            step("import (vectors), without the indexes", bulk, *ours, "import", str(vectors))
            step("index build", bulk, *ours, "index", "build", *login)
            step("copy", source, *ours, "copy", "--to", copied)
            step("the same again", source, *ours, "copy", "--to", copied)
            programs, dump = find_binaries().directory, place / "dump"
            as_admin = [make_conninfo(admin, dbname=conninfo_to_dict(dsn)["dbname"]) for dsn in (source, restored)]
            step("pg_dump", source, str(programs / "pg_dump"), "-Fc", "-f", str(dump), as_admin[0], size=dump)
            clean = ("--clean", "--if-exists", "-d", as_admin[1], str(dump))
            step("pg_restore", source, str(programs / "pg_restore"), *clean)
    finally:
        shutil.rmtree(place)
    common.report("scale/moving", {"rows": args.rows, "dims": DIMS, "themes": THEMES}, found, args.json)


if __name__ == "__main__":
    main()
