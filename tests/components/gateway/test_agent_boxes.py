"""Programs in boxes play as they play outside, and leave nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from components.environments.family import Family
from components.environments.program import AgentBox, AgentProgram
from components.errors import ConfigurationError
from components.gateway.programs import Endpoint, ProgramRunner
from components.gateway.server import Entrance, GatewayServer
from components.sandbox.agent_box import BubblewrapAgents
from components.schema import ProgramEnd
from tests.components.gateway.test_gateway import Scripted, open_gateway, open_session
from tests.components.gateway.test_play import make_starts, play


@pytest.fixture(scope="module")
def boxed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProgramRunner]:
    boxes = BubblewrapAgents(tmp_path_factory.mktemp("state"))
    with ProgramRunner(tmp_path_factory.mktemp("unused"), open_boxes=lambda: boxes, boxes_all=True) as made:
        yield made


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProgramRunner]:
    with ProgramRunner(tmp_path_factory.mktemp("programs")) as made:
        yield made


def test_programs_in_boxes_play_the_same_episodes(boxed: ProgramRunner, trusted: ProgramRunner) -> None:
    starts = make_starts(2)
    assert play(boxed, starts) == play(trusted, starts)
