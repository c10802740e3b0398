#!/usr/bin/env python3
"""Writes pgvector/config_schema.py, the form of the host's dashboard and desktop, from the settings themselves.

Run it after a setting with a label was added or changed, in an environment that has the package. `--check` changes
nothing, and exits with 1 when the file is out of date.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from hermes_memory_pgvector.config.settings import FIELDS, Field
from hermes_memory_pgvector.host.setup import API_KEY

FILE = Path(__file__).resolve().parents[1] / "pgvector" / "config_schema.py"
_HEAD = '''"""The desktop form of this plugin, generated from the settings by scripts/make_config_schema.py.

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
'''
_LITERAL_MAX_CHARS = 95  # what the formatter leaves on one line
_UNSAID = "as config.yaml says, or the default"


def form() -> str:
    """The whole file."""
    parts = []
    for field in FIELDS:
        if field.label and field.key != "dims":
            parts.append(_entry(field))
        if field.key == "embed_model":
            parts.append(_secret(API_KEY["key"], API_KEY["label"], API_KEY["env_var"], API_KEY["description"]))
    return _HEAD + "".join(parts) + "    ),\n)\n"


def _entry(field: Field) -> str:
    if field.secret:
        return _secret(field.key, field.label, field.env, _doc(field))
    choices = ("true", "false") if field.kind is bool else field.choices
    kind = "KIND_SELECT" if choices else "KIND_NUMBER" if field.kind in (int, float) and not field.word else "KIND_TEXT"
    lines = [
        f"            {_text(field.key)},",
        f"            {_text(field.label)},",
        f"            {kind},",
        f"            description={_text(_doc(field))},",
    ]
    if choices:
        lines.append("            options=(")
        lines.append(f'                ProviderFieldOption("", {_text(f"{_UNSAID}: {_default(field)}")}),')
        lines += [f"                ProviderFieldOption({_text(each)}, {_text(each)})," for each in choices]
        lines.append("            ),")
    else:
        lines.append(f"            placeholder={_text(_UNSAID + ': ' + (_default(field) or 'none'))},")
    return _field([*lines, "            inline=True,"])


def _secret(key: object, label: object, env: object, doc: object) -> str:
    return _field(
        [
            f"            {_text(key)},",
            f"            {_text(label)},",
            "            KIND_SECRET,",
            f"            description={_text(doc)},",
            f"            env_key={_text(env)},",
            "            inline=True,",
        ]
    )


def _field(lines: list[str]) -> str:
    return "        ProviderField(\n" + "\n".join(lines) + "\n        ),\n"


def _doc(field: Field) -> str:
    """Return what a setting is for, without what it means in config.yaml when it is empty: here that says nothing."""
    return field.doc.partition("; empty ")[0]


def _default(field: Field) -> str:
    value = field.default
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _text(value: object) -> str:
    """A string literal, in pieces where it is long."""
    text = str(value)
    words = json.dumps(text, ensure_ascii=False)
    if len(words) <= _LITERAL_MAX_CHARS:
        return words
    cut = text.rindex(" ", 0, _LITERAL_MAX_CHARS - 2) + 1
    return f"{json.dumps(text[:cut], ensure_ascii=False)}\n            {_text(text[cut:])}"


def main() -> int:
    """Write the file, or only look; the exit code."""
    parser = argparse.ArgumentParser(description="Write pgvector/config_schema.py from the settings.")
    parser.add_argument("--check", action="store_true", help="change nothing, exit with 1 when it is out of date")
    only_look = parser.parse_args().check
    fresh = form()
    if fresh == FILE.read_text(encoding="utf-8"):
        print(f"{FILE.name}: up to date")
        return 0
    if only_look:
        print(f"{FILE.name}: out of date; run scripts/make_config_schema.py", file=sys.stderr)
        return 1
    FILE.write_text(fresh, encoding="utf-8")
    print(f"{FILE.name}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
