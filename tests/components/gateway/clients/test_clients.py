"""Published agents go through the gateway unchanged, and none of their answers is sampled twice."""

import json
import os
import subprocess
import sys

import pytest

from tests.components.gateway.clients import matrix, published
from tests.components.gateway.clients.fault_proxy import FAULTS, Fault
from tests.components.gateway.clients.published import FOLDER, NAMES

PACKAGE = __spec__.parent
REQUIRED = bool(os.environ.get("TROUPE_TEST_AGENTS"))
"""Where it is set, a test fails rather than be skipped for want of the agents."""
needs_agents = pytest.mark.skipif(
    not (FOLDER / ".installed").exists() and not REQUIRED, reason="no agents are installed: make agents"
)
OF_CODEX = ("--volatile", "Chunk ID: [0-9a-f]+", "--volatile", r"Wall time: [0-9.]+ seconds")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("client", ["openai chat", "openai responses", "anthropic, stream"])
def test_a_fault_between_client_and_gateway_samples_nothing_twice(
    client: str, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the SDKs that are here: what all clients do is `make agents`."""
    monkeypatch.setattr(published, "find_python", lambda name: sys.executable)
    (row,) = matrix.run_client(client, [fault])
    assert not row.wrong, row
    assert row.finishes != (fault == "within" and "stream" in client), row


@needs_agents
@pytest.mark.long
def test_published_agents_finish_and_none_of_their_answers_is_sampled_twice() -> None:
    done = subprocess.run([sys.executable, "-m", f"{PACKAGE}.matrix", "--faults"], stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    assert done.returncode == 0
    assert f"{len(NAMES)} of {len(NAMES)} client paths finish" in done.stdout


@needs_agents
@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        ("openai-agents", "2", "9", "21", "33", "39"),
        ("pydantic-ai chat", "1", "14", "25", "36"),
        ("pi", "2", "11", "19", "28", "37"),
        (*OF_CODEX, "codex", "4", "22"),
    ],
)
def test_an_agent_that_is_killed_and_run_again_becomes_the_one_that_is_not(arguments: tuple[str, ...]) -> None:
    lives = live(arguments)
    assert (lives["num_nodes"], lives["num_sampled"], lives["num_diverged"], lives["num_wrong"]) == (40, 40, 0, 0)
    assert lives["num_replayed"] > 0


@needs_agents
@pytest.mark.long
def test_an_agent_with_a_clock_and_random_numbers_in_its_prompts_diverges() -> None:
    lives = live(("codex", "4", "22"))
    assert lives["num_diverged"] > 0
    assert lives["num_sampled"] == lives["num_nodes"] + lives["num_diverged"]


def live(arguments: tuple[str, ...]) -> dict[str, int]:
    command = ["bwrap", "--dev-bind", "/", "/", "--unshare-net", sys.executable, "-m", f"{PACKAGE}.kills", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found
