"""Every statement of the package: those of agents, and those that stand beside a feature of the operator's tool."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from hermes_memory_pgvector.store.sql import queries

ROOT = "hermes_memory_pgvector"


def statement_packages() -> list[str]:
    """The packages that hold SQL files, as `query(name, package=...)` names them; empty for store/queries."""
    admin = Path(str(files(ROOT).joinpath("admin")))
    folders = sorted({file.parent for file in admin.rglob("*.sql")})
    return ["", *(".".join([ROOT, *folder.relative_to(admin.parent).parts]) for folder in folders)]


def every_statement() -> dict[str, str]:
    """Every statement by its name, of which no two are the same."""
    return {name: text for package in statement_packages() for name, text in queries(package).items()}


def package_of(name: str) -> str:
    """The package whose SQL files hold a statement."""
    return next(package for package in statement_packages() if name in queries(package))


def sql_files() -> list[Path]:
    """Every file of named statements."""
    root = Path(str(files(ROOT)))
    return sorted([*root.joinpath("store", "queries").glob("*.sql"), *root.joinpath("admin").rglob("*.sql")])
