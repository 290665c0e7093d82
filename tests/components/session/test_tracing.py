"""The texts and calls of episodes that are shown, recovered from what is stored."""

from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.runs.run import Run
from components.schema import RolloutShard, ScoredShard
from components.session.scenario import scenario_of
from components.session.toolbox import Toolbox
from components.session.tracing import Tracing, tracing_of
from flows.presets import preset_config
from tests.components.sandbox.scripted import ScriptedSandbox
from tests.exported_runs import PROMPTS, export_run
from tests.troupe.viewing.test_tool_results import CONFIG, make_result, play
from troupe.viewing.recorded import read_recorded


def scores_of(shard: RolloutShard) -> ScoredShard:
    rewards = tuple(tuple(tuple(c.reward for c in node.candidates) for node in each.nodes) for each in shard.episodes)
    return ScoredShard(step=shard.step, shard=shard.shard, rewards_E_N_K=rewards)


def test_programs_are_shown_below_the_answers_that_ran_them(tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"tracking": CONFIG.tracking.model_copy(update={"traces_per_step": 4})})
    scenario, store = scenario_of(config), LocalArtifactStore(tmp_path)
    shard = play(scenario, ScriptedSandbox(make_result, image_digest="image"))
    tracing = Tracing(Run(run_id="r", config=config), store, scenario, image="image", index="")
    num_calls = 0
    for trace in tracing.traces(0, [shard], [scores_of(shard)]):
        for span in trace.spans:
            if span.kind == "tool":
                assert span.parent is not None
                answer = trace.spans[span.parent]
                num_calls += 1
                assert answer.name == "tool_agent"
                assert answer.outputs["answer"].splitlines()[1] in span.inputs["program"]
                assert span.outputs["stdout"] == make_result(span.inputs["program"], span.inputs["stdin"]).stdout
    assert num_calls >= 4
    other = Tracing(Run(run_id="r", config=config), store, scenario, image="another image", index="")
    assert not [
        span for each in other.traces(0, [shard], [scores_of(shard)]) for span in each.spans if span.kind == "tool"
    ]


def test_prompts_are_texts_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = export_run(tmp_path)
    recorded = read_recorded(made.store, "team", 1)
    episodes = tuple(each.episode for each in recorded.episodes)
    shard = RolloutShard(step=1, shard=0, policy_versions=recorded.versions, episodes=episodes)
    tracing = Tracing(made.run, made.store, scenario_of(preset_config("tiny")), image="", index="")
    for _ in range(2):
        (trace, *_) = tracing.traces(1, [shard], [scores_of(shard)])
        prompts = {span.name: span.inputs["prompt"] for span in trace.spans if span.kind == "agent"}
        assert prompts == PROMPTS
        problem = episodes[0].problem.problem_id
        assert trace.view == f"troupe view {made.run.run_id} --store {made.store.uri} --step 1 --problem {problem}"
        monkeypatch.setattr(type(made.store), "get_folder", lambda *_, **__: pytest.fail("the store is asked again"))


@pytest.mark.parametrize(
    ("overrides", "is_on"),
    [([], True), (["tracking.traces_per_step=0"], False), (["tracking.kind=none"], False)],
)
def test_episodes_are_shown_unless_that_is_off(tmp_path: Path, overrides: list[str], is_on: bool) -> None:
    config = preset_config("tiny", overrides)
    scenario = scenario_of(config)
    run, store = Run(run_id="r", config=config), LocalArtifactStore(tmp_path)
    assert (tracing_of(run, store, scenario, Toolbox(scenario)) is not None) == is_on
