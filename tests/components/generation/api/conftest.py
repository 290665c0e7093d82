"""The server that clients of both providers are tested against."""

from collections.abc import Iterator

import pytest

from tests.components.generation.api.wire_server import WireServer, wire_server


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with wire_server() as server:
        yield server
