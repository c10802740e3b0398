"""What fuzzing has found, and that its targets take what they begin with: scripts/fuzz.py."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.append(str(SCRIPTS))

from fuzzing.seeds import SEEDS  # noqa: E402
from fuzzing.targets import TARGETS  # noqa: E402

# Damaged spools: pages in a circle, rows that are read but not found by their number, a schema that is no text.
FOUND = {
    "spool": (
        "6686c9cd763015acb13a3be8133b8e8d3b5439d75f8d87f1faf805bf5fcba7fc5a4f89b0",
        "614418616581eb0503df241f23077054c083d658d16ab2230cd2071d7cd935403d480be6",
        "1e761837b3315aa005c60e61b2a834563e79689f2684c9a58395cddbbb80d2643fa878e7",
        "4af36c8b15826fd6dba01c9f",
    ),
    "foreign": tuple(
        text.encode().hex()
        for text in (
            '{"mode":"oss","oss":{"vector_store":"qdrant"}}',
            '{"mode":"oss","oss":{"vector_store":{"provider":"pgvector","config":["a"]}}}',
            "[" * 100_000,
        )
    ),
}


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_takes_what_it_begins_with(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    for seed in (*SEEDS[name], b""):
        TARGETS[name](seed)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        pytest.param(name, data, id=f"{name}-{number}")
        for name, many in FOUND.items()
        for number, data in enumerate(many)
    ],
)
def test_what_was_found_is_mended(name: str, data: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    TARGETS[name](bytes.fromhex(data))
