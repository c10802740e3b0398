#!/usr/bin/env python3
"""Write docs/licences.md: every package that ours brings along, with its licence and why it is there.

Run it in the environment of the tests after a dependency was added. Only metadata of installed packages is read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "licences.md"
EXTRAS = ("embedded", "model", "metrics", "mcp", "web")
_HEAD = """# Licences

<!-- This page is made by scripts/list_licences.py: run it after a dependency was added. -->

What is installed with hermes-memory-pgvector and its extras, by what each package says of itself. Ours is BSD-3-Clause.
None of them is in our wheel. psycopg is under the LGPL, and is imported as a library; certifi, shtab and tqdm are under
the MPL. The bundled model, bge-small-en-v1.5, is under the MIT licence and its reranker, ms-marco-MiniLM-L-12-v2, under
Apache-2.0; PostgreSQL and pgvector in the embedded server are under the PostgreSQL licence. Versions are those of the
day the page was made.

| Package | Version | Licence | Installed with | For |
|---|---|---|---|---|
"""
_NAMES = {  # what metadata of older packages calls a licence
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "MIT License": "MIT",
    "BSD License": "BSD",
    "3-Clause BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}


@dataclass(frozen=True, slots=True)
class Package:
    """A package that is installed with ours. `why`: the reason in pyproject.toml, or the package that needs it."""

    name: str
    version: str
    licence: str
    extra: str
    why: str

    def row(self) -> str:
        """Return its row of the table."""
        return f"| {self.name} | {self.version} | {self.licence} | {self.extra or 'always'} | {self.why} |"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page, packages by their names."""
    return _HEAD + "".join(f"{package.row()}\n" for package in packages())


def packages() -> list[Package]:
    """Return every package that is installed with ours, once, with the first extra that needs it."""
    found: dict[str, Package] = {}
    for extra, direct in declared().items():
        for requirement, why in direct:
            _add(found, requirement, extra, why)
    return sorted(found.values(), key=lambda package: package.name.lower())


def declared() -> dict[str, list[tuple[Requirement, str]]]:
    """Return the dependencies in pyproject.toml by extra, "" for those of everybody, with the comment before each."""
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    lists = {"": project["dependencies"]} | {extra: project["optional-dependencies"][extra] for extra in EXTRAS}
    return {extra: [(Requirement(each), _comment(text, each)) for each in some] for extra, some in lists.items()}


def _comment(text: str, dependency: str) -> str:
    """Return what the comment nearest before a dependency says first."""
    before = text[: text.index(f'"{dependency}"')].splitlines()
    nearest = next(line for line in reversed(before) if line.lstrip().startswith("#"))
    return nearest.lstrip("# ").split("; ")[0].rstrip(".")


def _add(found: dict[str, Package], requirement: Requirement, extra: str, why: str) -> None:
    """Add a package and what it needs itself; one that is not installed here is left out."""
    key = canonicalize_name(requirement.name)
    try:
        installed = distribution(requirement.name)
    except PackageNotFoundError:
        return
    if key not in found:
        found[key] = Package(installed.metadata["Name"], installed.version, licence_of(installed), extra, why)
    elif not requirement.extras:
        return
    for other in requirements(installed, {"", *requirement.extras}):
        if canonicalize_name(other.name) not in found:
            _add(found, other, extra, f"needed by {installed.metadata['Name']}")


def requirements(installed: Distribution, extras: set[str]) -> Iterator[Requirement]:
    """Yield what a package with these extras needs on this machine."""
    for text in installed.requires or []:
        requirement = Requirement(text)
        if requirement.marker is None or any(_holds(requirement.marker, extra) for extra in extras):
            yield requirement


def _holds(marker: Marker, extra: str) -> bool:
    return marker.evaluate({"extra": extra})


def licence_of(installed: Distribution) -> str:
    """Return the licence that a package declares: an SPDX expression, a field, or a classifier."""
    metadata = installed.metadata
    classifiers = (text for text in metadata.get_all("Classifier") or [] if text.startswith("License ::"))
    said = [
        metadata.get("License-Expression"),
        metadata.get("License"),
        *(text.split(" :: ")[-1] for text in classifiers),
    ]
    given = next((text.strip() for text in said if text and text != "UNKNOWN" and "\n" not in text), "not declared")
    return _NAMES.get(given, given)


if __name__ == "__main__":
    main()
