"""Setting variables in the home's .env, which the host and the user write as well."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from dotenv import dotenv_values
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermes_memory_pgvector.admin.common.dotenv_file import set_dotenv
from hermes_memory_pgvector.admin.common.file_replacing import replace_file, restored_on_failure
from hermes_memory_pgvector.config.sources import read_dotenv
from hermes_memory_pgvector.domain.errors import ConfigurationError

NAME = "HERMES_PGVECTOR_DSN"


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    set_dotenv(tmp_path, {NAME: "x"})
    assert (tmp_path / ".env").read_bytes() == b"HERMES_PGVECTOR_DSN=x\n"
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"# k\nA=1\n", b"# k\nA=1\nHERMES_PGVECTOR_DSN=x\n"),
        (b"A=1", b"A=1\nHERMES_PGVECTOR_DSN=x\n"),
        (b"A=1\r\n", b"A=1\r\nHERMES_PGVECTOR_DSN=x\r\n"),
        (b"\xef\xbb\xbfA=1\n", b"\xef\xbb\xbfA=1\nHERMES_PGVECTOR_DSN=x\n"),
        (b" export HERMES_PGVECTOR_DSN = old\nA=\xff\n", b"HERMES_PGVECTOR_DSN=x\nA=\xff\n"),
        (b"HERMES_PGVECTOR_DSN=1\nA=1\nHERMES_PGVECTOR_DSN=2\n", b"HERMES_PGVECTOR_DSN=x\nA=1\n"),
        (b"A=1\n\nHERMES_PGVECTOR_DSN=1\n\nB=1\n", b"A=1\n\nHERMES_PGVECTOR_DSN=x\n\nB=1\n"),
        (b"A='1\nHERMES_PGVECTOR_DSN=2\n'\n", b"A='1\nHERMES_PGVECTOR_DSN=2\n'\nHERMES_PGVECTOR_DSN=x\n"),
        (b"HERMES_PGVECTOR_DSN='a''\nB=1\n", b"HERMES_PGVECTOR_DSN=x\nB=1\n"),
        (b"#HERMES_PGVECTOR_DSN=1\nHERMES_PGVECTOR_DSN_2=3\n", None),
    ],
)
def test_other_lines_stay_byte_for_byte(tmp_path: Path, before: bytes, after: bytes | None) -> None:
    path = tmp_path / ".env"
    path.write_bytes(before)

    set_dotenv(tmp_path, {NAME: "x"})

    assert path.read_bytes() == (before + b"HERMES_PGVECTOR_DSN=x\n" if after is None else after)
    set_dotenv(tmp_path, {NAME: None})
    assert read_dotenv(tmp_path).get(NAME) is None


@pytest.mark.parametrize("before", [b"A=1\nHERMES_PGVECTOR_DSN=old", None])
def test_what_was_changed_before_a_failure_is_restored(tmp_path: Path, before: bytes | None) -> None:
    path = tmp_path / ".env"
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(ZeroDivisionError), restored_on_failure(path):
        set_dotenv(tmp_path, {NAME: "x"})
        raise ZeroDivisionError
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("A=1\n", encoding="utf-8")
    (tmp_path / ".env").symlink_to("real")
    set_dotenv(tmp_path, {NAME: "x"})
    assert (tmp_path / ".env").is_symlink() and "=x" in (tmp_path / "real").read_text(encoding="utf-8")


def test_no_device_or_pipe_is_replaced_by_a_file(tmp_path: Path) -> None:
    """A link may lead to /dev/null, which root would replace for the whole machine."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        replace_file(tmp_path / "pipe", b"A=1")
    assert (tmp_path / "pipe").is_fifo()


def test_the_last_line_leaves_a_file_that_says_so(tmp_path: Path) -> None:
    """A process that has read the file takes an empty one for one that is about to be written."""
    set_dotenv(tmp_path, {NAME: "secret"})
    assert read_dotenv(tmp_path) == {NAME: "secret"}
    set_dotenv(tmp_path, {NAME: None})
    assert read_dotenv(tmp_path) == {}


def test_what_cannot_stand_there_is_refused(tmp_path: Path) -> None:
    for value in ("a\nB=2", "a\0", "a\r"):
        with pytest.raises(ConfigurationError, match="one line"):
            set_dotenv(tmp_path, {NAME: value})
    (tmp_path / ".env").mkdir()
    with pytest.raises(ConfigurationError, match="by hand"):
        set_dotenv(tmp_path, {NAME: "secret-value"})


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=40))
@example("a${b}")
def test_need_22_the_host_and_we_read_what_was_written(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    home = tmp_path_factory.mktemp("home")
    if "${" in value:  # the host would put a variable there
        with pytest.raises(ConfigurationError, match="stands for a variable"):
            set_dotenv(home, {NAME: value, "HERMES_PGVECTOR_OTHER": "y"})
        assert read_dotenv(home) == {}
        return
    set_dotenv(home, {NAME: value, "HERMES_PGVECTOR_OTHER": "y"})
    assert read_dotenv(home) == {NAME: value, "HERMES_PGVECTOR_OTHER": "y"}
    assert dotenv_values(home / ".env", interpolate=False) == {NAME: value, "HERMES_PGVECTOR_OTHER": "y"}
