"""Small files of a home: no pipe keeps a reader waiting, and none is ever seen half written."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermes_memory_pgvector.config.sources import read_dotenv, read_section
from hermes_memory_pgvector.domain.errors import ConfigurationError, EmbedderError
from hermes_memory_pgvector.domain.files import replace_text
from hermes_memory_pgvector.embed.model_folder import read_json
from hermes_memory_pgvector.mcp.tokens import TokenFile

# A reader of a pipe that nobody writes to would wait for ever.
pytestmark = pytest.mark.timeout(60)


def test_a_pipe_in_the_place_of_settings_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.yaml")
    os.mkfifo(tmp_path / ".env")

    section, (warning,) = read_section(tmp_path)

    assert section is None
    assert "config.yaml cannot be read (it is no regular file)" in warning
    assert read_dotenv(tmp_path) == {}


def test_a_pipe_in_the_place_of_tokens_or_a_model_is_an_error(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path)
    tokens.path.parent.mkdir()
    os.mkfifo(tokens.path)
    with pytest.raises(ConfigurationError, match="no regular file"):
        tokens.read()
    with pytest.raises(EmbedderError, match="no regular file"):
        read_json(tokens.path)


def test_a_file_replaced_by_several_at_once_is_always_whole(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    written = [json.dumps({"by": number, "more": "x" * 20_000}) for number in range(4)]
    replace_text(path, written[0])
    start = threading.Barrier(5)

    def write(text: str) -> None:
        start.wait()
        for _ in range(200):
            replace_text(path, text)

    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(write, text) for text in written]
        start.wait()
        while not all(writer.done() for writer in writers):
            assert path.read_text(encoding="utf-8") in written
        for writer in writers:
            writer.result()

    assert [each.name for each in tmp_path.iterdir()] == ["record.json"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_stood_there_stays_when_it_cannot_be_replaced(tmp_path: Path) -> None:
    """Nor is a link followed that somebody else has put where the new text is made."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("", encoding="utf-8")
    with pytest.raises(OSError):
        replace_text(tmp_path / "kept", "text")
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]

    mine, other = tmp_path / "mine", tmp_path / "other"
    other.write_text("somebody's", encoding="utf-8")
    (tmp_path / f".mine.{os.getpid()}-{threading.get_ident()}").symlink_to(other)
    replace_text(mine, "text")
    assert (mine.read_text(encoding="utf-8"), other.read_text(encoding="utf-8")) == ("text", "somebody's")
