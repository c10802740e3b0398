"""Lets a person edit a text in their editor, and loses nothing of what they wrote."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from ...domain.errors import InvalidArgument, WrongUsage
from ..common.console import warn
from ..common.repeat import ctrl_c_left_to_others, held_back

_SAVES_WITHIN_S = 5.0  # an editor that is asked to end writes down what it has first


def edited(text: str) -> str:
    """Let a person edit a text in their editor; return the result.

    If that is interrupted, or something ends the editor, what they wrote is kept in a folder that only this user can
    enter. Raises WrongUsage without an editor, InvalidArgument if it fails.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise WrongUsage("give the new text, or - to read it from stdin, or set $EDITOR")
    folder = Path(tempfile.mkdtemp(prefix="hermes-pgvector-"))
    file, given = folder / "memory.txt", f"{text}\n"
    finished = False
    try:
        file.write_text(given, encoding="utf-8")
        code = _run(editor, file)
        if code:
            finished = code > 0
            how = f"ended with code {code}" if code > 0 else f"was ended by signal {-code}"
            raise InvalidArgument(f"the editor {editor!r} {how}: nothing was changed")
        written = file.read_text(encoding="utf-8")
        finished = True
        return written
    except UnicodeDecodeError as exc:
        raise InvalidArgument(f"what the editor {editor!r} has saved is not UTF-8: nothing was changed") from exc
    finally:
        if not finished and _holds_more(folder, file, given):
            warn(f"what you wrote is in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _run(editor: str, file: Path) -> int:
    """Return the exit code of the editor. Raises InvalidArgument if it cannot be run."""
    process = None
    with ctrl_c_left_to_others():
        try:
            with held_back(), ctrl_c_left_to_others():  # else it might have begun, and nobody would know how to end it
                process = subprocess.Popen([*shlex.split(editor), str(file)])
            return process.wait()
        except OSError as exc:
            raise InvalidArgument(f"the editor {editor!r} cannot be run: {exc.strerror or exc}") from exc
        except KeyboardInterrupt:  # SIGTERM, or the terminal is gone
            if process is not None:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_SAVES_WITHIN_S)
                process.kill()
            raise


def _holds_more(folder: Path, file: Path, given: str) -> bool:
    """Return whether a person has saved a text, or the editor has put something beside it, as vim does."""
    with suppress(OSError):
        return file.read_bytes() != given.encode() or len(os.listdir(folder)) > 1
    return False
