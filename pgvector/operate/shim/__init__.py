"""Hands hermes the memory provider of the installed package; calls ctx.register_memory_provider."""

from typing import Any


def register(ctx: Any) -> None:
    """Register the installed package's provider, or a stand-in that says why there is none."""
    try:
        from hermes_memory_pgvector import register as register_installed

        register_installed(ctx)
    except ImportError as error:
        from .absent import register_stand_in

        register_stand_in(ctx, error)
