#!/usr/bin/env python3
"""Ask the package index whether each supported Python and platform gets wheels of every dependency; print a table.

Nothing is installed, and nothing but metadata downloaded where the index offers that. pip judges the environment
markers of dependencies by the Python that runs this, so a dependency of one platform alone is judged there only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
EXTRAS = ("embedded", "mcp", "metrics", "model", "web")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_GLIBC = 28  # minor version of the newest glibc that a wheel may ask for: that of Debian 10 and RHEL 8
_MACOS = 14
PLATFORMS = {
    "Linux x86_64": [f"manylinux_2_{minor}_x86_64" for minor in range(_GLIBC, 4, -1)] + ["manylinux2014_x86_64"],
    "Linux aarch64": [f"manylinux_2_{minor}_aarch64" for minor in range(_GLIBC, 16, -1)] + ["manylinux2014_aarch64"],
    "macOS arm64": [f"macosx_{_MACOS}_0_arm64"],
    "macOS x86_64": [f"macosx_{_MACOS}_0_x86_64"],
}


def main() -> int:
    """Print the table; return 1 when a wheel is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only this one; may be given again")
    parser.add_argument("--platform", action="append", choices=sorted(PLATFORMS), help="likewise")
    given = parser.parse_args()
    pythons, platforms = given.python or PYTHONS, given.platform or list(PLATFORMS)
    needed = requirements()
    print(f"| Python | {' | '.join(platforms)} |\n|---|{'---|' * len(platforms)}")
    complete = True
    for python in pythons:
        cells = [cell(python, platform, needed) for platform in platforms]
        complete = complete and not any(text.startswith("no ") for text in cells)
        print(f"| {python} | {' | '.join(cells)} |", flush=True)
    return not complete


def requirements() -> list[str]:
    """Return what the package needs with its extras, as pyproject.toml says."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *(each for name in EXTRAS for each in project["optional-dependencies"][name])]


def cell(python: str, platform: str, needed: Sequence[str]) -> str:
    """Return how many wheels are installed there, or which dependencies have none."""
    if (found := resolved(python, platform, needed)) is not None:
        return f"{found} wheels"
    return f"no {', '.join(lacking(python, platform, needed)) or 'combination of wheels'}"


def lacking(python: str, platform: str, needed: Sequence[str]) -> Iterator[str]:
    """Yield those of `needed` that cannot be had with what they need themselves."""
    for requirement in needed:
        if resolved(python, platform, [requirement]) is None:
            yield requirement


def resolved(python: str, platform: str, needed: Sequence[str]) -> int | None:
    """Return how many wheels `needed` comes down to; None where one is missing."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        abi = f"cp{python.replace('.', '')}"
        options = ["--implementation", "cp", "--python-version", python, "--abi", abi, "--abi", "abi3", "--abi", "none"]
        for tag in PLATFORMS[platform]:
            options += ["--platform", tag]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-input"]
        command += ["--only-binary", ":all:", "--target", folder, "--report", str(report), *options, *needed]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            return None
        return len(json.loads(report.read_text(encoding="utf-8"))["install"])


if __name__ == "__main__":
    sys.exit(main())
