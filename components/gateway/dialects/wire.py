"""Bytes: JSON, server-sent events, what keeps a connection alive, and errors in OpenAI's form."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from components.gateway.base import RequestRefused

STREAM_KEEP_ALIVE = b": wait\n\n"
"""A comment, which clients pass over, before the first event of a stream."""
BODY_KEEP_ALIVE = b" \n"
"""White space before a JSON document."""


def write_json(value: Mapping[str, Any]) -> bytes:
    """ASCII alone: no client splits a line in it, and any text can be said."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def write_event(data: Mapping[str, Any], name: str = "") -> bytes:
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + write_json(data) + b"\n\n"


def write_openai_refusal(refused: RequestRefused) -> dict[str, Any]:
    kind = "rate_limit_error" if refused.status == 429 else "invalid_request_error"
    error = {"message": str(refused), "type": "server_error" if refused.status >= 500 else kind}
    return {"type": "error", "error": {**error, "param": refused.field or None, "code": refused.code or None}}


def write_models(names: Sequence[str]) -> dict[str, Any]:
    """The answer to GET /v1/models, in the form of both providers at once."""
    alike = {"object": "model", "created": 0, "owned_by": "troupe", "type": "model"}
    dated = {**alike, "created_at": "1970-01-01T00:00:00Z", "lifecycle": "active"}
    ends = {"has_more": False, "first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return {"object": "list", "data": [{"id": name, "display_name": name, **dated} for name in names], **ends}
