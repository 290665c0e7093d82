"""A team of which one role is played by a model behind an API: the other learns, the API is paid and never trained."""

import json
from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.generation.api.chat import KEY_VARIABLES
from tests.components.generation.api.wire_server import KEY, MODEL, wire_server
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]
SHAPE = "tiny: {hidden_size: 32, num_layers: 2, num_heads: 2, intermediate_size: 64}"
AGENTS = "agents={tool_agent: {policy: adviser, max_new_tokens: 20}, plan_agent: {policy: plan}}"
SMALL = ("num_steps=1", "evaluation={num_problems: 4, problems_per_block: 4}", "rollout.num_problems=4")


@pytest.mark.long
def test_an_api_advises_and_the_other_role_learns(trainings: Trainings, tmp_path: Path) -> None:
    with wire_server() as wire:
        wire.answer = lambda state, index: "[R, D]" if index % 2 else "no list"
        api = f"{{provider: openai, model: {MODEL}, base_url: '{wire.base_url('openai')}', input_price: 1, output_price: 4}}"
        policies = f"policies={{llm_actor: {{api: {api}, trained: false, prompt_format: chat}}, plan: {{{SHAPE}}}}}"
        ordered = order(
            tmp_path, "advised", overrides=(policies, AGENTS, *SMALL), environment={KEY_VARIABLES["openai"]: KEY}
        )
        assert trainings.run(ordered).code == 0, trainings.log()
    summary = json.loads((tmp_path / "advised.json").read_text())
    used = summary["api_usage"]["adviser"]
    assert used["num_requests"] == len(wire.exchanges) > 0
    assert used["cost"] == pytest.approx((used["num_prompt_tokens"] + 4 * used["num_answer_tokens"]) / 1e6)
    [step] = outcome(LocalArtifactStore(tmp_path / "store"), "advised")["steps"]
    assert set(step["checkpoint_digest"]) == {"plan"}
    in_rollout = {name: step["metrics"][f"api/adviser/{name}"] for name in used}
    assert 0 < in_rollout["num_requests"] < used["num_requests"]  # the others were for the warm start and evaluations
    assert in_rollout["cost"] == pytest.approx(
        (in_rollout["num_prompt_tokens"] + 4 * in_rollout["num_answer_tokens"]) / 1e6
    )
    kept = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    assert KEY not in kept
