"""A run is evaluated on real vLLM servers on the CPU as in this process."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from components.runs.lineages import freeze_config
from components.runs.run import Run
from components.session.session import Session
from flows.presets import preset_config
from flows.train import PIPELINE
from infra.services.vllm_server import key_file
from infra.services.vllm_stack import down_vllm, up_vllm
from tasks.warm_start import warm_start
from tests.integration.vllm_servers import needs_vllm, processes_of
from troupe.cli import app

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), needs_vllm]
SHAPE = "policies={team: {tiny: {hidden_size: 64, num_layers: 2, num_heads: 2, intermediate_size: 64}}}"
"""Heads of 32, which the CPU kernels take."""
CLONED = "warm_start={min_success: 0.0, max_success: 1.0, max_steps: 300, check_every: 300, num_check_problems: 20}"
SERVERS = "{kv_cache_gib: 0.125, max_model_tokens: 256, max_requests_at_once: 32, port: 18500}"
ON_VLLM = ("generation.engine=vllm", f"generation.vllm={SERVERS}")


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[str], list[str]]]:
    """The options of `troupe evaluate` for a cloned run in its store, and those that add a server of its model."""
    root = tmp_path_factory.mktemp("evaluated")
    local = [f"store.root={root / 'store'}", "store.kind=local", "tracking.kind=none", SHAPE, CLONED]
    with Session(Run(run_id="cloned", config=preset_config("tiny", local))) as session:
        warm_start.fn(session)
        freeze_config(session.store, "cloned", session.config, PIPELINE)
    home = root / "home"
    try:
        urls = list(up_vllm(home, preset_config("tiny", [*local, *ON_VLLM])).values())
        servers = (*ON_VLLM, f"generation.vllm.urls={urls}", f"generation.vllm.key_file={key_file(home)}")
        yield ["--store", f"file://{root / 'store'}", "--json"], [each for line in servers for each in ("--set", line)]
    finally:
        down_vllm(home)
    assert processes_of(home) == []


def evaluated(options: list[str]) -> dict[str, Any]:
    told = CliRunner().invoke(app, ["evaluate", "cloned@0", "--problems", "100", "--seed", "4", *options])
    assert told.exit_code == 0, told.output
    return dict(json.loads(told.stdout))


@pytest.mark.parametrize("sampling", ["greedy", "sample"])
def test_servers_solve_what_this_process_solves(options: tuple[list[str], list[str]], sampling: str) -> None:
    stored, on_servers = options
    here = evaluated([*stored, "--sampling", sampling])
    there = evaluated([*stored, "--sampling", sampling, *on_servers])
    assert 0 < here["success_rate"] < 1, "either engine may be better or worse"
    assert here["interval"][0] <= there["success_rate"] <= here["interval"][1]
    if sampling == "greedy":
        assert there["success_rate"] == pytest.approx(here["success_rate"], abs=0.02), "but for ties of logits"
    assert (there["suite_digest"], there["n"]) == (here["suite_digest"], 100)
    stored_again = evaluated([*stored, "--sampling", sampling])
    assert stored_again["metrics"] == here["metrics"], "play of another engine is not mistaken for one's own"
