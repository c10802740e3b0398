"""The host's programs in processes that are forked from one that has imported the libraries they use.

The host's own modules are imported by each process, for some read its home and its environment meanwhile.
"""

from __future__ import annotations

from .forked import prepared

# What the host's chat, gateway and dashboard import of others, the greatest first.
_LIBRARIES = (
    *("openai", "openai.types", "aiohttp.web", "fastapi", "uvicorn", "mcp", "requests", "prompt_toolkit"),
    *("rich.console", "rich.markdown", "rich.panel", "rich.table", "rich.progress", "pygments.lexers", "croniter"),
    *("websockets.asyncio.client", "httpx", "yaml", "ruamel.yaml", "dotenv", "psycopg", "psycopg_pool", "tarfile"),
)

# As Python does for `-c CODE` and `-m MODULE`.
_PROGRAM = """
import runpy
kind, name, *words = arguments
if kind == "-c":
    sys.argv = [kind, *words]
    exec(compile(name, "<string>", "exec"), {"__name__": "__main__"})
else:
    sys.argv = [name, *words]
    runpy.run_module(name, run_name="__main__", alter_sys=True)
"""


def hermes_place() -> str:
    """Return where a process is told what to fork, with Python's arguments (`-c CODE` or `-m MODULE`, and more)."""
    return prepared("", _PROGRAM, *_LIBRARIES)
