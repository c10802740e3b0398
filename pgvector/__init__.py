"""hermes-memory-pgvector: a memory provider for hermes-agent on Postgres and pgvector.

The host executes this file to find `register`; everything else is imported when the provider is made, so that two
first requests at once never see a module half loaded.
"""


def register(ctx):  # type: ignore[no-untyped-def]
    """Give the host a provider; it calls this for each agent it makes."""
    from .host.provider import PgvectorMemoryProvider

    ctx.register_memory_provider(PgvectorMemoryProvider())


def __getattr__(name):  # type: ignore[no-untyped-def]
    if name == "PgvectorMemoryProvider":
        from .host.provider import PgvectorMemoryProvider

        return PgvectorMemoryProvider
    raise AttributeError(name)
