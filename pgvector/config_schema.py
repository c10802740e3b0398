"""The desktop form of this plugin, generated from the settings by scripts/make_config_schema.py.

The host saves the form in $HERMES_HOME/pgvector/config.json and does not read config.yaml. An empty field leaves the
value of config.yaml in effect. `dims` is not in the form: none of our code runs when the host saves it, and `dims` has
to be the database's.
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
            "Postgres DSN",
            KIND_SECRET,
            description="Postgres to use, as a libpq URI or key=value string",
            env_key="HERMES_PGVECTOR_DSN",
            inline=True,
        ),
        ProviderField(
            "embed_url",
            "Embedding endpoint",
            KIND_TEXT,
            description="Base URL of an Ollama or OpenAI-compatible embedding endpoint, or local:NAME for an "
            "installed model",
            placeholder="as config.yaml says, or the default: none",
            inline=True,
        ),
        ProviderField(
            "embed_model",
            "Embedding model",
            KIND_TEXT,
            description="Embedding model the endpoint is asked for",
            placeholder="as config.yaml says, or the default: nomic-embed-text",
            inline=True,
        ),
        ProviderField(
            "embed_api_key",
            "Embedding API key",
            KIND_SECRET,
            description="Only where the endpoint wants one",
            env_key="HERMES_PGVECTOR_EMBED_API_KEY",
            inline=True,
        ),
        ProviderField(
            "prefetch_limit",
            "Memories recalled before a turn",
            KIND_NUMBER,
            description="Most memories put before a turn without asking; 0 puts none",
            placeholder="as config.yaml says, or the default: 5",
            inline=True,
        ),
        ProviderField(
            "min_similarity",
            "Minimum similarity",
            KIND_TEXT,
            description="Cosine similarity from which a row is put before a turn; auto measures the embedding model "
            "that is in use",
            placeholder="as config.yaml says, or the default: auto",
            inline=True,
        ),
        ProviderField(
            "sync_turns",
            "Store conversation turns",
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
