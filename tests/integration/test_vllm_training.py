"""Training steps whose rollouts are sampled by real vLLM servers on the CPU, with one policy (L1) and with adapters (L2)."""

from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from flows.presets import preset_config
from infra.services.vllm_server import key_file
from infra.services.vllm_stack import down_vllm, up_vllm
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings
from tests.integration.vllm_servers import needs_vllm, processes_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), needs_vllm]
SHAPE = "tiny: {hidden_size: 64, num_layers: 2, num_heads: 2, intermediate_size: 64}"
LEVELS = {
    "L1": (f"policies={{team: {{{SHAPE}}}}}",),
    "L2": (
        f"policies={{tool: {{adapter: {{rank: 4}}, {SHAPE}}}, plan: {{adapter: {{rank: 8}}, {SHAPE}}}}}",
        "agents={tool_agent: {policy: tool}, plan_agent: {policy: plan}}",
    ),
}
SERVERS = "{kv_cache_gib: 0.125, max_model_tokens: 256, max_requests_at_once: 32, port: 18300}"
MORE = ("num_steps=2", "evaluation={num_problems: 8, problems_per_block: 8}", "generation.engine=vllm")
LARGEST_MISMATCH = 1e-3


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_two_steps_against_a_server(level: str, trainings: Trainings, tmp_path: Path) -> None:
    overrides = (*LEVELS[level], *MORE, f"generation.vllm={SERVERS}")
    home = tmp_path / "home"
    try:
        urls = list(up_vllm(home, preset_config("tiny", list(overrides))).values())
        assert len(urls) == 1, "adapters share their base's server"
        servers = (f"generation.vllm.urls={urls}", f"generation.vllm.key_file={key_file(home)}")
        named = (*overrides, *servers, f"loss.mismatch_tolerance={LARGEST_MISMATCH}")
        assert trainings.run(order(tmp_path, level.lower(), overrides=named)).code == 0, trainings.log()
    finally:
        down_vllm(home)
    assert processes_of(home) == []
    steps = outcome(LocalArtifactStore(tmp_path / "store"), level.lower())["steps"]
    for policy in steps[0]["checkpoint_digest"]:
        assert len({step["checkpoint_digest"][policy] for step in steps}) == 2, "each step is played by new weights"
        mismatches = [step["metrics"][f"train/{policy}/mismatch_max_abs"] for step in steps]
        assert 0.0 < max(mismatches) <= LARGEST_MISMATCH
