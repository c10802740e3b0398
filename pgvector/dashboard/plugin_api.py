"""The routes below /api/plugins/pgvector, which the host's dashboard takes from `router`.

The host loads this file by its path, without a package. In a shim's directory the installed package is imported by its
own name; in a copy, or behind a link, the folder above is the package. If it cannot be imported, every route says how
to fix that.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from fastapi import APIRouter
from fastapi.responses import JSONResponse

_FOLDER = Path(__file__).resolve().parents[1]
_INSTALLED = "hermes_memory_pgvector"
_COPY = "_hermes_pgvector_dashboard"


def _package() -> str:
    """Return the name by which the package can be imported."""
    if not (_FOLDER / "dashboard" / "routing.py").is_file():
        return _INSTALLED
    installed = find_spec(_INSTALLED)
    if installed is not None and installed.origin and Path(installed.origin).resolve().parent == _FOLDER:
        return _INSTALLED
    # The page belongs to the copy, whatever else is installed.
    _load(_COPY, _FOLDER)
    return _COPY


def _load(name: str, folder: Path) -> ModuleType:
    """Import the package in a folder by another name."""
    spec = spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _explanation(package: str, error: ImportError) -> str:
    """Return what is missing, and the command that installs it."""
    if (_FOLDER / "absent").is_dir():  # as in every shim
        return str(_load("_hermes_pgvector_absent", _FOLDER / "absent").explanation(error))
    return str(import_module(f"{package}.admin.common.commands").missing_package(error))


def _stand_in(message: str) -> APIRouter:
    def answer(path: str) -> JSONResponse:
        return JSONResponse({"error": message, "kind": "ImportError"}, 503, {"Cache-Control": "no-store"})

    made = APIRouter()
    made.add_api_route("/{path:path}", answer, methods=["GET", "POST"], response_model=None)
    return made


_name = _package()
try:
    router: APIRouter = import_module(f"{_name}.dashboard.routing").router
except ImportError as error:
    router = _stand_in(_explanation(_name, error))

__all__ = ["router"]
