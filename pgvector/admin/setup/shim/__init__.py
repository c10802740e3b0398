"""Registers the installed package's memory provider with hermes, by ctx.register_memory_provider."""

from typing import Any


def register(ctx: Any) -> None:
    """Register the installed package's provider, or a stand-in that says why there is none."""
    if not hasattr(ctx, "register_memory_provider"):  # the plugin manager at start-up: load before the first request
        from plugins.memory import load_memory_provider

        load_memory_provider("pgvector")
        return
    try:
        from hermes_memory_pgvector import register as register_installed

        register_installed(ctx)
    except Exception as error:  # a damaged package fails in any way, and the host would say nothing of it
        from .absent import register_stand_in

        register_stand_in(ctx, error)
