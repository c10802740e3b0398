"""Telephone numbers, e-mail addresses and user ids: never kept as they are, told apart by a digest."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final

DIGEST_CHARS: Final = 16
_MARK: Final = "~"  # stands before the digest that took an identifier's place; what follows it is never masked again

_EMAIL = r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
_ACCOUNT = r"\+?\d{6,20}(?:[:.-]\d{1,3})?@\w{1,32}"  # as messengers write it: 491701234567@lid
_PHONE = r"(?:\+|00(?=[1-9]))[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d(?:[ .()-]{0,2}\d){6,14}(?!\d)"
_SURE = re.compile(rf"(?<![\w.+%~-])(?:{_EMAIL}|{_ACCOUNT})|(?<![\w+~]){_PHONE}")
# A number alone between separators; a date is none, and neither are 16 digits and more.
_NUMBER = re.compile(r"(?:(?<=[:/ ])|^)(?!(?:19|20)\d\d-?[01]\d-?[0-3]\d)\(?\d(?:[ .()-]{0,2}\d){8,14}(?=[:/ ]|$)")
_KEY: Final = "agent:"  # how a session key of the host begins
_DIGITS = re.compile(r"\d{3}|@")


def identity_digest(text: str, key: str = "") -> str:
    """Return 16 hex digits of the text's sha256, with a `key` of its HMAC-SHA256.

    Without a key whoever knows all telephone numbers can find the one that was meant; with one, only its owner.
    """
    plain = text.encode("utf-8", "surrogatepass")
    if key:
        return hmac.new(key.encode(), plain, hashlib.sha256).hexdigest()[:DIGEST_CHARS]
    return hashlib.sha256(plain).hexdigest()[:DIGEST_CHARS]


def mask_identifiers(text: str, key: str = "", *, numbers: bool = False) -> str:
    """Put `~` and a digest in the place of each e-mail address, messenger account and telephone number.

    A telephone number begins with + or 00; with `numbers` also 9 to 15 digits that stand alone or between colons,
    slashes or blanks, and so where a session key of the host stands. Idempotent.
    """
    if _DIGITS.search(text) is None:
        return text

    def masked(found: re.Match[str]) -> str:
        return _MARK + identity_digest(found[0], key)

    text = _SURE.sub(masked, text)
    return _NUMBER.sub(masked, text) if numbers or _KEY in text else text
