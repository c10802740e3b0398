"""The form that the host's dashboard and desktop show for this plugin."""

from plugins.memory.config_schema import (
    KIND_BOOL,
    KIND_NUMBER,
    KIND_SECRET,
    KIND_TEXT,
    ProviderConfigSchema,
    ProviderField,
)

CONFIG_SCHEMA = ProviderConfigSchema(
    name="pgvector",
    label="Postgres + pgvector",
    fields=(
        ProviderField(
            "dsn",
            "Postgres",
            KIND_SECRET,
            env_key="HERMES_PGVECTOR_DSN",
            inline=True,
            description="libpq URI or key=value string; empty starts the embedded Postgres",
        ),
        ProviderField(
            "embed_url",
            "Embedding endpoint",
            KIND_TEXT,
            inline=True,
            description="Base URL of an Ollama or OpenAI-compatible endpoint, or local:NAME for an installed model; "
            "empty recalls by words only",
        ),
        ProviderField("embed_model", "Embedding model", KIND_TEXT, default="nomic-embed-text", inline=True),
        ProviderField("prefetch_limit", "Memories put before a turn", KIND_NUMBER, default="5"),
        ProviderField(
            "min_similarity",
            "Similarity a memory must have for that",
            KIND_TEXT,
            default="auto",
            description="auto, or a number from -1 to 1",
        ),
        ProviderField("sync_turns", "Store the turns of conversations", KIND_BOOL, default="true"),
    ),
)
