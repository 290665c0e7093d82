"""Types of names and addresses in a configuration: safe to show, in paths, and in manifests."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def check_name(name: str) -> str:
    """`name` itself. Raises ValueError unless it can be a folder, a key and a label."""
    if not _NAME.fullmatch(name):
        raise ValueError("use 1 to 63 letters, digits, '.', '_' and '-', starting with a letter or a digit")
    return name


def check_address(url: str) -> str:
    """`url` itself. Raises ValueError unless it is an http(s) address without user, password, query or control characters."""
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname or address.port == 0 or not url.isprintable():
        raise ValueError("must be an http:// or https:// address")
    if address.username is not None or address.password is not None or address.query:
        raise ValueError("must hold no user, password or query: it is written into manifests and shown to others")
    return url


def check_prefix(prefix: str) -> str:
    """`prefix` itself. Raises ValueError if it may leave its bucket."""
    if not prefix.isprintable() or ".." in prefix.split("/") or "\\" in prefix:
        raise ValueError("must be a key prefix without '..', backslashes or control characters")
    return prefix


def check_label(text: str) -> str:
    """`text` itself. Raises ValueError unless it is one line without markup."""
    if not text or not text.isprintable() or set(text) & set("<>&"):
        raise ValueError("must be one line without control characters, '<', '>' and '&'")
    return text


Name = Annotated[str, AfterValidator(check_name)]
Address = Annotated[str, AfterValidator(check_address)]
Prefix = Annotated[str, AfterValidator(check_prefix)]
Label = Annotated[str, AfterValidator(check_label)]
