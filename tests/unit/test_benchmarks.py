"""What the benchmarks replace of the shipped code is there: only who measures again would notice that it moved."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PACKAGE = "hermes_memory_pgvector"


def imported(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Return the module and the name in it of all that a script imports from the package."""
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in froms
        if node.module is not None and node.module.startswith(PACKAGE)
        for alias in node.names
    }


def changed() -> Iterator[tuple[str, str, str, str]]:
    """Yield script, module, name in it, and the attribute of that which the script replaces by `mock.patch.object`."""
    for script in sorted(BENCHMARKS.rglob("*.py")):
        text = script.read_text(encoding="utf-8")
        if "mock.patch.object" not in text:
            continue
        tree = ast.parse(text)
        known = imported(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "mock.patch.object":
                owner, attribute = node.args[0], node.args[1]
                assert isinstance(owner, ast.Name) and isinstance(attribute, ast.Constant), f"{script}:{node.lineno}"
                yield (script.name, *known[owner.id], str(attribute.value))


@pytest.mark.parametrize(("script", "module", "name", "attribute"), list(changed()))
def test_what_a_benchmark_replaces_is_there(script: str, module: str, name: str, attribute: str) -> None:
    found = importlib.import_module(module)
    owner = getattr(found, name) if hasattr(found, name) else importlib.import_module(f"{module}.{name}")
    assert hasattr(owner, attribute)
