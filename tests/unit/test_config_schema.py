"""The desktop's form, which the host loads by itself, is what the settings say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hermes_memory_pgvector.config.settings import FIELDS
from hermes_memory_pgvector.host.setup import config_schema

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_config_schema.py"


def test_the_form_is_made_from_the_settings() -> None:
    done = subprocess.run([sys.executable, "-P", str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_need_22_a_form_shows_no_password(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "plugins:\n  pgvector:\n    dsn: postgresql://u:geheim@h/d\n    embed_url: http://me:geheim@gpu:1/v1\n"
        "    identity_key: geheim\n    prefetch_limit: 7\n",
        encoding="utf-8",
    )
    schema = config_schema(FIELDS, tmp_path)
    assert "geheim" not in str(schema)
    assert next(entry for entry in schema if entry["key"] == "prefetch_limit")["default"] == "7"
    assert next(entry for entry in schema if entry["key"] == "sync_turns")["default"] is True


def test_need_02_a_broken_file_leaves_the_form_with_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("memory: [\n", encoding="utf-8")
    schema = config_schema(FIELDS, tmp_path)
    assert next(entry for entry in schema if entry["key"] == "embed_model")["default"] == "nomic-embed-text"
