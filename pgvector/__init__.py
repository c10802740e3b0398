"""hermes-memory-pgvector: a memory provider for hermes-agent on Postgres and pgvector.

The host executes this file to find `register`; everything else is imported when the provider is created, so that two
concurrent first requests never see a half-loaded module.
"""


def register(ctx):  # type: ignore[no-untyped-def]
    """Register a provider: the host's memory loader calls this for each agent, its plugin manager once, at start-up."""
    if not hasattr(ctx, "register_memory_provider"):
        from plugins.memory import load_memory_provider

        load_memory_provider("pgvector")
        return
    from .host.provider import PgvectorMemoryProvider

    ctx.register_memory_provider(PgvectorMemoryProvider())


def __getattr__(name):  # type: ignore[no-untyped-def]
    if name == "PgvectorMemoryProvider":
        from .host.provider import PgvectorMemoryProvider

        return PgvectorMemoryProvider
    raise AttributeError(name)
