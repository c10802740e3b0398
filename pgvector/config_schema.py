"""The form of the host's desktop for this plugin: made by scripts/make_config_schema.py from the settings.

The host keeps what is saved there in $HERMES_HOME/pgvector/config.json, and knows nothing of config.yaml: a field that
is left empty says nothing, and what config.yaml says counts.
"""

from plugins.memory.config_schema import (
    KIND_NUMBER,
    KIND_SECRET,
    KIND_SELECT,
    KIND_TEXT,
    ProviderConfigSchema,
    ProviderField,
    ProviderFieldOption,
)

CONFIG_SCHEMA = ProviderConfigSchema(
    name="pgvector",
    label="Postgres + pgvector",
    fields=(
        ProviderField(
            "dsn",
            "Postgres",
            KIND_SECRET,
            description="Postgres to use, as a libpq URI or key=value string; empty starts the embedded one",
            env_key="HERMES_PGVECTOR_DSN",
            inline=True,
        ),
        ProviderField(
            "embed_url",
            "Embedding endpoint",
            KIND_TEXT,
            description="Base URL of an Ollama or OpenAI-compatible embedding endpoint, or local:NAME for an "
            "installed model; empty recalls by words only",
            inline=True,
        ),
        ProviderField(
            "embed_model",
            "Embedding model",
            KIND_TEXT,
            description="Embedding model the endpoint is asked for",
            placeholder="nomic-embed-text",
            inline=True,
        ),
        ProviderField(
            "embed_api_key",
            "API key of the endpoint",
            KIND_SECRET,
            description="Only where the endpoint wants one",
            env_key="HERMES_PGVECTOR_EMBED_API_KEY",
            inline=True,
        ),
        ProviderField(
            "dims",
            "Length of an embedding",
            KIND_NUMBER,
            description="Length of an embedding; must equal what the model gives and what the migration created",
            placeholder="768",
            inline=True,
        ),
        ProviderField(
            "prefetch_limit",
            "Memories put before a turn",
            KIND_NUMBER,
            description="Most memories put before a turn by themselves; 0 turns that off",
            placeholder="5",
            inline=True,
        ),
        ProviderField(
            "min_similarity",
            "Similarity a memory must have for that",
            KIND_TEXT,
            description="Cosine similarity from which a row is put before a turn; auto takes what was measured for "
            "the model, or 0.3",
            placeholder="auto",
            inline=True,
        ),
        ProviderField(
            "sync_turns",
            "Store turns",
            KIND_SELECT,
            description="Store the turns of conversations",
            options=(
                ProviderFieldOption("", "as config.yaml says, or the default: true"),
                ProviderFieldOption("true", "true"),
                ProviderFieldOption("false", "false"),
            ),
            inline=True,
        ),
    ),
)
