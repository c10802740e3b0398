#!/usr/bin/env python3
"""Coverage-guided fuzzing of what takes text or files from outside, with atheris.

    python -m venv .venv-fuzz
    .venv-fuzz/bin/pip install atheris .        # needs a Python that atheris has a wheel for
    .venv-fuzz/bin/python -P scripts/fuzz.py theme -max_total_time=120

`scripts/fuzz.py --list` names the targets. What follows the target goes to libFuzzer: `-max_total_time=S`, `-runs=N`,
a folder to keep the corpus in. What breaks a target is written to `crash-...`; `scripts/fuzz.py TARGET FILE` plays it
again, also without atheris. Each target's docstring says what must hold.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:2]]


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    """Imports in the block are made so that atheris sees which branches are taken, where it is installed."""
    try:
        import atheris
    except ImportError:
        yield
        return
    with atheris.instrument_imports(include=["hermes_memory_pgvector"]):
        yield


def main() -> int:
    """Fuzz a target, or play files of bytes."""
    with _watched():
        from fuzzing.targets import TARGETS
    logging.disable()  # what goes wrong with a file is told for each of a million
    given = sys.argv[1:]
    if not given or given[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    if given[0] == "--list":
        for name, target in TARGETS.items():
            print(f"{name:12s} {(target.__doc__ or '').splitlines()[0]}")
        return 0
    if (target := TARGETS.get(given[0])) is None:
        print(f"no target {given[0]!r}; there are: {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    files = [Path(word) for word in given[1:] if Path(word).is_file()]
    if files:
        for file in files:
            target(file.read_bytes())
            print(f"{file}: fine")
        return 0
    return _fuzz(target, given)


def _fuzz(target: Callable[[bytes], None], given: list[str]) -> int:
    try:
        import atheris
    except ImportError:
        print("atheris is not installed here: see --help", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as seeds:
        from fuzzing.seeds import SEEDS

        for number, seed in enumerate(SEEDS.get(given[0], ())):
            Path(seeds, str(number)).write_bytes(seed)
        folders = [word for word in given[1:] if not word.startswith("-")]
        options = [word for word in given[1:] if word.startswith("-")]
        atheris.Setup(
            [sys.argv[0], *options, *(folders or [tempfile.mkdtemp(prefix="fuzz-", dir=seeds)]), seeds], target
        )
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
