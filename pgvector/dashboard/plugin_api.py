"""The routes below /api/plugins/pgvector, which the host's dashboard takes from `router`.

The host loads this file by its path, without a package: the installed package is imported by its own name, as the shim
of the plugin directory does.
"""

from hermes_memory_pgvector.dashboard.routing import router

__all__ = ["router"]
