"""Removes secrets and personal identifiers from texts, metadata and session names before they are stored."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..config.settings import Settings
from ..domain.redaction import identity_digest, mask_identifiers, masker
from ..domain.text import clean, clean_json, digest

MASKED_NOTE = "what looked like a password, key or token was masked before it was stored"
_MASKED_VALUE = "[masked-password]"
_SESSION_MAX_CHARS = 256
_STRUCTURE_TEXTS = ("subject", "scope", "when")  # which may contain a secret

# The keys by which hosts identify the people they talk to; their values are replaced by a digest.
_PERSONAL = frozenset(
    {
        "user_id", "user_id_alt", "user_name", "chat_id", "chat_id_alt", "chat_name", "thread_id", "sender",
        "sender_id", "gateway_session_key", "session_key", "phone", "phone_number", "email",
    }
)  # fmt: skip


class Sanitizer:
    """Masks secrets (counted as `secrets_masked`) and personal identifiers as the settings say."""

    def __init__(self, settings: Settings) -> None:
        self._masker = masker(settings.mask_patterns) if settings.mask_secrets else None
        self._key = settings.identity_key
        self.max_chars = settings.turn_max_mb * 1_000_000

    def text(self, text: str, counts: Counter[str]) -> str:
        """Return `text` without secrets. Personal identifiers stay: whoever wrote a person's address meant to."""
        if self._masker is None:
            return text
        masked, found = self._masker.mask(text)
        if found:
            counts["secrets_masked"] += found
        return masked

    def structure(self, said: Mapping[str, Any], counts: Counter[str]) -> dict[str, Any]:
        """Return the attributes of a memory besides its text, named as in `Structure`, without secrets."""
        texts = {name: said[name] for name in _STRUCTURE_TEXTS if isinstance(said.get(name), str)}
        return {**said} | {name: self.text(text, counts) for name, text in texts.items()}

    def metadata(self, given: Mapping[Any, Any], counts: Counter[str]) -> dict[str, Any]:
        """Return a copy that can be stored as JSON, without secrets and without personal identifiers."""
        plain = clean_json(given)
        kept = self._kept(plain, counts)
        return kept if isinstance(kept, dict) else {}

    def _kept(self, value: object, counts: Counter[str]) -> object:
        if isinstance(value, str):
            return mask_identifiers(self.text(value, counts), self._key)
        if isinstance(value, list):
            return [self._kept(item, counts) for item in value]
        if isinstance(value, dict):
            named = ((self.text(key, counts), key, item) for key, item in value.items())
            return {
                mask_identifiers(name, self._key): (
                    identity_digest(str(item), self._key)
                    if key in _PERSONAL and isinstance(item, (str, int, float)) and item != ""
                    else self._named(name, self._kept(item, counts), counts)
                )
                for name, key, item in named
            }
        return value

    def _named(self, name: str, value: object, counts: Counter[str]) -> object:
        """Return a value without what only its name, such as "password", shows to be a secret."""
        if not isinstance(value, (str, int, float)):
            return value
        pair = json.dumps({name: value}, ensure_ascii=False)
        if (masked := self.text(pair, counts)) == pair:
            return value
        try:
            return next(iter(json.loads(masked).values()))
        except ValueError:  # a number without its quotes
            return _MASKED_VALUE


def session_name(given: object, identity_key: str) -> str:
    """Return a session id as it is stored: clean, and above 256 characters cut to 239, "-" and a hash of the whole.

    An index entry holds no more than 2.7 KB. A telephone number or an e-mail address in the id is masked.
    """
    return _session_name(clean(given), identity_key)


@functools.lru_cache(maxsize=1024)
def _session_name(given: str, identity_key: str) -> str:
    name = mask_identifiers(given.strip(), identity_key)
    return name if len(name) <= _SESSION_MAX_CHARS else f"{name[: _SESSION_MAX_CHARS - 17]}-{digest(name).hex()[:16]}"
