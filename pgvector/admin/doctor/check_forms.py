"""Whether what the desktop's form saved overrules what stands in config.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...config.settings import FIELDS
from ...config.sources import form_path, read_form, read_section
from .check import Check


def check_forms(home: Path) -> Iterator[Check]:
    """Yield a note where somebody who edits config.yaml would wonder that nothing changes."""
    section, _ = read_section(home)
    said = section if isinstance(section, dict) else {}
    form = read_form(home)
    overruled = [
        field.key
        for field in FIELDS
        if form.get(field.key) not in (None, "")
        and said.get(field.key) is not None
        and str(said[field.key]).lower() != str(form[field.key]).lower()
    ]
    if overruled:
        yield Check(
            "form",
            "note",
            f"the desktop's form says otherwise than config.yaml, and counts: {', '.join(overruled)}",
            f"empty these fields there, or delete {form_path(home)}",
        )
