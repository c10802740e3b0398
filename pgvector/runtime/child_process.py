"""Our own modules as the program of another Python process."""

from __future__ import annotations

import sys
from pathlib import Path

_PACKAGE_DIR = Path(__file__).resolve().parents[1]
# The package under its own name wherever it lies: installed, or copied into a plugin directory.
_LAUNCH = """
import importlib, importlib.util, sys
where, module = sys.argv.pop(1), sys.argv.pop(1)
name, init = "hermes_memory_pgvector", where + "/__init__.py"
spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[where])
sys.modules[spec.name] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
sys.exit(importlib.import_module(name + "." + module).main())
"""


def command_of(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `main` of a module of ours, named as `admin.common.embedded_server`."""
    return [sys.executable, "-P", "-c", _LAUNCH, str(_PACKAGE_DIR), module, *arguments]
