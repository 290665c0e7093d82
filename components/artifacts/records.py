"""Records: small JSON documents with a digest of their content, which reveals any change."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from components.errors import ArtifactCorrupt

M = TypeVar("M", bound=BaseModel)

DIGEST = "record_sha256"
"""The SHA-256 of everything else in the record, as canonical JSON."""

_RUN = re.compile(r"runs/(?P<run>[^/]+)/(?P<kind>[a-z_]+)(\.json|/.*)")


def with_digest(value: Mapping[str, Any], *, indent: int | None = None) -> bytes:
    """`value` as the bytes of a record: its JSON, and `record_sha256` beside its fields."""
    plain = json.loads(json.dumps(dict(value)))
    assert DIGEST not in plain, f"{DIGEST} is the record's own field"
    return json.dumps({**plain, DIGEST: _digest(plain)}, indent=indent).encode()


def read_verified(key: str, content: bytes) -> dict[str, Any]:
    """The fields of the record at `key`. Raises ArtifactCorrupt with the remedy."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise make_damage_error(key, f"its {len(content)} bytes are no record ({error})") from error
    if not isinstance(value, dict):
        raise make_damage_error(key, f"it holds a {type(value).__name__}, no record")
    promised = value.pop(DIGEST, None)
    if promised is not None and promised != _digest(value):
        raise make_damage_error(key, "its content differs from its digest, so it was changed after it was written")
    return value


def read_as(key: str, content: bytes, as_type: type[M], upgrade: Callable[[Any], Any] = lambda values: values) -> M:
    """The record at `key` as a pydantic value; `upgrade` brings the values of earlier versions into today's form. Raises
    ArtifactCorrupt if it is damaged or has another type."""
    try:
        return as_type.model_validate(upgrade(read_verified(key, content)))
    except ValidationError as error:
        raise make_damage_error(
            key, f"no {as_type.__name__} of this version of Troupe ({first_complaint(error)})"
        ) from error


def make_damage_error(key: str, what: str) -> ArtifactCorrupt:
    """The error for a damaged record, with the remedy for its kind of key."""
    return ArtifactCorrupt(f"{key}: {what}; {remedy(key)}")


def remedy(key: str) -> str:
    """What to do about a damaged record.

    **Example** of a record below `runs/r7/steps/`: "`troupe verify r7` says what makes it again".
    """
    found = _RUN.fullmatch(key)
    if found is None:
        return "restore it from a copy, or delete it"
    if found["run"] == "_shared":
        return "delete it, and `troupe resume` makes it again"
    if found["kind"] in ("config", "lineages"):
        return "restore it from a copy, or use the version of Troupe that wrote it"
    return f"`troupe verify {found['run']}` says what makes it again"


def _digest(value: Mapping[str, Any]) -> str:
    """The SHA-256 of canonical JSON, except that NaN is allowed: a metric may be NaN."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def first_complaint(error: ValidationError) -> str:
    """The first error of pydantic and the number of others, in one line."""
    first, *others = error.errors(include_url=False, include_input=False)
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" + (f", and {len(others)} more" if others else "")
