"""Episodes in MLflow's pages for language-model applications."""

from components.tracking.mlflow import MlflowTracker
from tests.components.tracking.conftest import EXPERIMENT, MlflowReader
from tests.components.tracking.reports import trace


def test_an_episode_is_a_tree_with_texts_rewards_and_tokens(mlflow: MlflowReader, mlflow_url: str) -> None:
    tracker = MlflowTracker(mlflow_url, EXPERIMENT, register_models=True)
    tracker.publish_traces(
        "shown", [trace("a", step=3), trace("b", step=3, error="exit 1")], timestamp_ms=1_700_000_000_000
    )
    one, other = mlflow.full_traces("shown")
    assert one.info.request_time == 1_700_000_000_000
    assert one.info.token_usage == {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    assert (one.info.tags["troupe.run_id"], one.info.tags["troupe.step"]) == ("shown", "3")
    assert one.info.tags["troupe.view"] == "troupe view r --problem a"
    episode, turn, answer, call = one.data.spans
    assert [each.name for each in (episode, turn, answer, call)] == ["plan_path", "turn 0", "plan_agent", "program"]
    assert [each.span_type for each in (episode, turn, answer, call)] == ["CHAIN", "CHAIN", "CHAT_MODEL", "TOOL"]
    assert [each.parent_id for each in (turn, answer, call)] == [episode.span_id, turn.span_id, answer.span_id]
    assert (answer.inputs, answer.outputs) == ({"prompt": {"text": "grid a\n:"}}, {"answer": "R,R", "reward": 1.5})
    assert list(episode.inputs.items()) == [("run", "shown"), ("step", 3), ("problem", "a")]
    assert answer.attributes["troupe.policy"] == "team"
    assert episode.end_time_ns == call.end_time_ns
    assert [each.status.status_code.value for each in other.data.spans] == ["OK", "OK", "OK", "ERROR"]
    assert other.data.spans[3].status.description == "exit 1"


def test_traces_are_removed_with_their_run(mlflow: MlflowReader, mlflow_url: str) -> None:
    tracker = MlflowTracker(mlflow_url, EXPERIMENT, register_models=True)
    for name in ("fading", "lasting"):
        tracker.publish_traces(name, [trace("a"), trace("b")], timestamp_ms=1_700_000_000_000)
    assert tracker.remove_run("fading")[-1] == "2 traces"
    experiment = mlflow.client.get_experiment_by_name(EXPERIMENT).experiment_id
    left = mlflow.client.search_traces(locations=[experiment], filter_string="tags.`troupe.run_id` = 'fading'")
    assert list(left) == []
    assert mlflow.traces("lasting") == ["a", "b"]
