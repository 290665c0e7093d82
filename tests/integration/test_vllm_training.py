"""Real vLLM servers on the CPU sample rollouts of training, of one policy (L1) and of adapters (L2), and evaluations."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from components.artifacts.local import LocalArtifactStore
from components.runs.initial_checkpoints import record_initial_checkpoints
from components.runs.lineages import freeze_config
from components.runs.run import Run
from components.session.session import Session
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE
from infra.services.vllm_server import key_file
from infra.services.vllm_stack import down_vllm, up_vllm
from tasks.warm_start import warm_start
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings
from tests.integration.vllm_servers import needs_vllm, processes_of
from troupe.cli import app

pytestmark = [pytest.mark.long, pytest.mark.timeout(900), needs_vllm]
SHAPE = "tiny: {hidden_size: 64, num_layers: 2, num_heads: 2, intermediate_size: 64}"
"""Heads of 32, which the CPU kernels take."""
LEVELS = {
    "L1": (f"policies={{team: {{{SHAPE}}}}}",),
    "L2": (
        f"policies={{tool: {{adapter: {{rank: 4}}, {SHAPE}}}, plan: {{adapter: {{rank: 8}}, {SHAPE}}}}}",
        "agents={tool_agent: {policy: tool}, plan_agent: {policy: plan}}",
    ),
}
SERVERS = "{kv_cache_gib: 0.125, max_model_tokens: 256, max_requests_at_once: 32, port: 18300}"
ON_VLLM = ("generation.engine=vllm", f"generation.vllm={SERVERS}")
MORE = ("num_steps=2", "evaluation={num_problems: 8, problems_per_block: 8}")
CLONED = "warm_start={min_success: 0.0, max_success: 1.0, max_steps: 300, check_every: 300, num_check_problems: 20}"
LARGEST_MISMATCH = 1e-3


@contextmanager
def serving(level: str, home: Path) -> Iterator[tuple[str, ...]]:
    """The overrides that let a run of `level` sample on a server of its own model."""
    try:
        urls = list(up_vllm(home, preset_config("tiny", [*LEVELS[level], *ON_VLLM])).values())
        assert len(urls) == 1, "adapters share their base's server"
        yield (*ON_VLLM, f"generation.vllm.urls={urls}", f"generation.vllm.key_file={key_file(home)}")
    finally:
        down_vllm(home)
    assert processes_of(home) == []


@pytest.fixture(scope="module")
def one_policy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    with serving("L1", tmp_path_factory.mktemp("vllm-home")) as on_server:
        yield on_server


def check_two_steps(level: str, on_server: tuple[str, ...], trainings: Trainings, root: Path) -> None:
    named = (*LEVELS[level], *MORE, *on_server, f"loss.mismatch_tolerance={LARGEST_MISMATCH}")
    assert trainings.run(order(root, level.lower(), overrides=named)).code == 0, trainings.log()
    steps = outcome(LocalArtifactStore(root / "store"), level.lower())["steps"]
    for policy in steps[0]["checkpoint_digest"]:
        assert len({step["checkpoint_digest"][policy] for step in steps}) == 2, "each step is played by new weights"
        mismatches = [step["metrics"][f"train/{policy}/mismatch_max_abs"] for step in steps]
        assert 0.0 < max(mismatches) <= LARGEST_MISMATCH


def test_two_steps_of_one_policy_against_a_server(
    one_policy: tuple[str, ...], trainings: Trainings, tmp_path: Path
) -> None:
    check_two_steps("L1", one_policy, trainings, tmp_path)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The options of `troupe evaluate` for a cloned run in its store."""
    root = tmp_path_factory.mktemp("evaluated")
    local = [f"store.root={root / 'store'}", "store.kind=local", "tracking.kind=none", *LEVELS["L1"], CLONED]
    with Session(Run(run_id="cloned", config=preset_config("tiny", local))) as session:
        warm_start.fn(session)
        freeze_config(session.store, "cloned", session.config, PIPELINE)
        record_initial_checkpoints(session.store, session.run, PIPELINE)
    return ["--store", f"file://{root / 'store'}", "--json"]


def evaluate(options: list[str]) -> dict[str, Any]:
    told = CliRunner().invoke(app, ["evaluate", "cloned@0", "--problems", "100", "--seed", "4", *options])
    assert told.exit_code == 0, told.output
    return dict(json.loads(told.stdout))


@pytest.mark.parametrize("sampling", ["greedy", "sample"])
def test_servers_solve_what_this_process_solves(stored: list[str], one_policy: tuple[str, ...], sampling: str) -> None:
    on_servers = [each for line in one_policy for each in ("--set", line)]
    here = evaluate([*stored, "--sampling", sampling])
    there = evaluate([*stored, "--sampling", sampling, *on_servers])
    assert 0 < here["success_rate"] < 1, "either engine may be better or worse"
    assert here["interval"][0] <= there["success_rate"] <= here["interval"][1]
    if sampling == "greedy":
        assert there["success_rate"] == pytest.approx(here["success_rate"], abs=0.02), "but for ties of logits"
    assert (there["suite_digest"], there["n"]) == (here["suite_digest"], 100)
    stored_again = evaluate([*stored, "--sampling", sampling])
    assert stored_again["metrics"] == here["metrics"], "play of another engine is not mistaken for one's own"


def test_two_steps_of_two_adapters_against_a_server(trainings: Trainings, tmp_path: Path) -> None:
    with serving("L2", tmp_path / "home") as on_server:
        check_two_steps("L2", on_server, trainings, tmp_path)
