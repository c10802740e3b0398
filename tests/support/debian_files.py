"""Programs that the tests run: the machine's own, or Debian's package unpacked, which needs no right of root's."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_FETCH_TIMEOUT_S = 300
_TRIES = 3  # a mirror may be away for a moment


@dataclass(frozen=True)
class DebianProgram:
    """A program, and the package that has it.

    `names` are looked for on PATH and in `places`, unless the environment's `variable` names the program to take.
    `file` is the program in the package, `beside` are more packages that it cannot do without.
    """

    package: str
    file: str
    variable: str
    names: tuple[str, ...]
    advice: str
    places: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def find(self, folder: Path) -> tuple[Path, Mapping[str, str]]:
        """Return the program and the environment it runs in; where there is no other, the one in `folder`, fetched.

        Raises RuntimeError when it cannot be had.
        """
        search = os.pathsep.join((os.environ.get("PATH", ""), *self.places))
        own = (found for name in self.names if (found := shutil.which(name, path=search)))
        if found := os.environ.get(self.variable) or next(own, None):
            return Path(found), os.environ
        for attempt in range(_TRIES):
            if self._works(folder):
                break
            try:
                self._fetch(folder)
            except (RuntimeError, OSError):  # also where another process fetches it into the same folder
                if attempt == _TRIES - 1:
                    raise
        else:
            if not self._works(folder):
                raise RuntimeError(f"the {self.package} in {folder} does not run; {self.advice}")
        return folder / self.file, _environment(folder)

    def _works(self, folder: Path) -> bool:
        try:
            return not subprocess.run(
                [folder / self.file, "--version"], env=_environment(folder), capture_output=True, check=False
            ).returncode
        except OSError:
            return False

    def _fetch(self, folder: Path) -> None:
        """Unpack the package, and those that it needs and the machine lacks, into `folder`."""
        if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
            raise RuntimeError(f"there is no {self.package} on this machine; {self.advice}")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as made:
            scratch = Path(made)
            # Lists and cache of our own: the machine's may be empty, and are not ours to renew.
            places = [("State::Lists", scratch / "lists"), ("Cache", scratch / "cache")]
            for _, place in places:
                (place / "partial").mkdir(parents=True)
            (scratch / "cache" / "archives" / "partial").mkdir(parents=True)
            options = [word for name, place in places for word in ("-o", f"Dir::{name}={place}")]
            options += ["-o", "Acquire::Retries=5", "-o", "APT::Sandbox::User=", "-qq"]
            self._run(scratch, "apt-get", *options, "update")
            wanted = self.package, *self.beside
            plan = self._run(scratch, "apt-get", *options, "-s", "--no-install-recommends", "install", *wanted)
            lacking = {line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")}
            self._run(scratch, "apt-get", *options, "download", *sorted(lacking.union(wanted)))
            for package in sorted(scratch.glob("*.deb")):
                self._run(scratch, "dpkg-deb", "-x", str(package), str(scratch / "unpacked"))
            shutil.rmtree(folder, ignore_errors=True)
            (scratch / "unpacked").replace(folder)

    def _run(self, scratch: Path, *command: str) -> str:
        try:
            done = subprocess.run(
                command, cwd=scratch, capture_output=True, text=True, check=False, timeout=_FETCH_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as exc:
            raise RuntimeError(f"{self.package} cannot be fetched: {command[0]} takes too long; {self.advice}") from exc
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip()
            raise RuntimeError(f"{self.package} cannot be fetched: {said}; {self.advice}")
        return done.stdout


def _environment(folder: Path) -> Mapping[str, str]:
    # Some have libraries in a folder of their own, which the program names by where it would be installed.
    below = [found for root in ("lib", "usr/lib") for found in folder.glob(f"{root}/*-linux-gnu*/**/*.so*")]
    libraries = sorted({each.parent for each in below})
    return os.environ | {
        "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
        # Fonts that were fetched as well, for programs that draw text.
        "XDG_DATA_DIRS": os.pathsep.join((str(folder / "usr" / "share"), "/usr/local/share", "/usr/share")),
    }
