"""The records of a run: its configuration cannot drift, and restarts hide nothing."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.artifacts.base import ArtifactStore
from components.artifacts.records import read_as, read_verified
from components.artifacts.s3 import S3ArtifactStore
from components.config import RunConfig
from components.errors import ArtifactCorrupt, ConfigDrift, ConfigurationError
from components.runs.lineages import (
    Lineage,
    drop_lineage,
    freeze_config,
    has_leftovers,
    index_key,
    lineage_at_end,
    lineage_for,
    list_runs,
    read_config,
    read_lineages,
    start_lineage,
    store_option,
)
from components.stage_roles import Role, Roles
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.sections import make_config

STAGES = [stage.name for stage in PIPELINE.stages]
END = "publish_checkpoint"
BEGIN = datetime(2026, 1, 2, tzinfo=UTC)


def config(**changes: Any) -> RunConfig:
    return make_config({"name": "plan_path", "options": {"size": 5}}, "plan_agent", **{"num_steps": 3, **changes})


def begin(store: ArtifactStore, step: int, stage: str = "update_policy", changed: RunConfig | None = None) -> int:
    """The number of a restart of r1."""
    about: dict[str, Any] = {"repeats": PIPELINE.repeats(stage), "config": changed or config(), "clock": lambda: BEGIN}
    return start_lineage(store, "r1", from_step=step, from_stage=stage, **about)


@pytest.mark.parametrize(
    ("roles", "name_of"),
    [
        (PIPELINE.roles, str),
        (Roles(), str),
        (Roles(stages=(Role(name="finish", ends_step=True),)), {END: "finish"}.get),
    ],
    ids=["recorded", "of before roles", "another name"],
)
def test_a_step_is_of_the_lineage_in_which_its_last_stage_ran_whatever_that_is_called(
    roles: Roles, name_of: Callable[[str], str]
) -> None:
    def restart(number: int, from_stage: str) -> Lineage:
        repeats = tuple(name_of(each) or each for each in PIPELINE.repeats(from_stage))
        about: dict[str, Any] = {"started_at": BEGIN, "config": config(), "roles": roles}
        return Lineage(lineage=number, from_step=3 * number, from_stage=from_stage, repeats=repeats, **about)

    lineages = [restart(1, "evaluate_policy"), restart(2, "update_policy")]
    assert [lineage_at_end(lineages, step) for step in range(2, 8)] == [0, 0, 1, 1, 2, 2]


def test_the_first_start_freezes_the_configuration(store: ArtifactStore) -> None:
    assert freeze_config(store, "r1", config(), PIPELINE, clock=lambda: BEGIN) == config()
    assert read_as("runs/r1/config.json", store.read("runs/r1/config.json") or b"", RunConfig) == config()
    assert read_config(store, "r1") == config()
    assert run_started_at(store, "r1") == BEGIN
    assert freeze_config(store, "r1", config(), PIPELINE) == config()
    assert run_started_at(store, "r1") == BEGIN


def test_drift_is_refused_and_names_every_field(store: ArtifactStore) -> None:
    freeze_config(store, "r1", config(), PIPELINE)
    with pytest.raises(ConfigDrift) as caught:
        freeze_config(store, "r1", config(seed=7, training={"learning_rate": 0.1}), PIPELINE)
    assert "seed: 0 -> 7" in str(caught.value)
    assert "training.learning_rate: 0.0003 -> 0.1" in str(caught.value)
    assert "num_steps" not in str(caught.value)
    assert read_config(store, "r1") == config()


def test_what_does_not_decide_the_result_may_change(store: ArtifactStore) -> None:
    freeze_config(store, "r1", config(), PIPELINE)
    longer = config(num_steps=9, evaluation={"num_problems": 10}, tracking={"kind": "none"}, preset="tiny")
    assert freeze_config(store, "r1", longer, PIPELINE) == longer


def test_a_run_id_that_cannot_be_spelled_is_refused(store: ArtifactStore) -> None:
    with pytest.raises(ConfigurationError, match="run_id"):
        freeze_config(store, "Not/A/Run", config(), PIPELINE)
    assert list(store.list("")) == []


def test_an_unreadable_configuration_is_named(store: ArtifactStore) -> None:
    store.create("runs/r1/config.json", b'{"num_steps": "many"}')
    with pytest.raises(ArtifactCorrupt, match=r"runs/r1/config\.json"):
        freeze_config(store, "r1", config(), PIPELINE)


def test_restarts_are_numbered_and_carry_their_configuration(store: ArtifactStore) -> None:
    freeze_config(store, "r1", config(), PIPELINE)
    assert read_lineages(store, "r1") == ()
    changed = config(rewards={"team_weight": 2.0})
    assert begin(store, 7, "compute_rewards", changed) == 1
    assert begin(store, 3, changed=changed) == 2
    first, second = read_lineages(store, "r1")
    assert first == restart(1, 7, "compute_rewards").model_copy(update={"config": changed})
    assert (second.lineage, second.from_step, second.from_stage) == (2, 3, "update_policy")


def test_drift_is_measured_against_the_newest_restart(store: ArtifactStore) -> None:
    freeze_config(store, "r1", config(), PIPELINE)
    changed = config(rewards={"team_weight": 2.0})
    begin(store, 1, "compute_rewards", changed)
    assert freeze_config(store, "r1", changed, PIPELINE) == changed
    with pytest.raises(ConfigDrift, match=r"rewards\.team_weight: 2\.0 -> 1\.0"):
        freeze_config(store, "r1", config(), PIPELINE)


def test_a_restart_of_nothing_or_from_nowhere_is_refused(store: ArtifactStore) -> None:
    with pytest.raises(ConfigurationError, match="'r1' is not in"):
        begin(store, 0)
    freeze_config(store, "r1", config(), PIPELINE)
    with pytest.raises(ConfigurationError, match="stages are warm_start"):
        begin(store, 0, "rewards")
    with pytest.raises(ConfigurationError, match="steps count from 0"):
        begin(store, -1)


def test_more_than_nine_restarts_stay_in_order(store: ArtifactStore) -> None:
    freeze_config(store, "r1", config(), PIPELINE)
    for number in range(1, 12):
        assert begin(store, number) == number
    assert [lineage.lineage for lineage in read_lineages(store, "r1")] == list(range(1, 12))


def test_drift_prints_the_commands_that_go_on(store: ArtifactStore) -> None:
    freeze_config(store, "r1", config(), PIPELINE)
    with pytest.raises(ConfigDrift) as caught:
        freeze_config(store, "r1", config(seed=7), PIPELINE)
    for command in (f"`troupe resume r1{store_option(store)}`", "--run-id", f"`troupe rm r1{store_option(store)}`"):
        assert command in str(caught.value)


def test_the_newest_restart_again_is_the_same_one(store: ArtifactStore) -> None:
    freeze_config(store, "r1", config(), PIPELINE)
    wanted: dict[str, Any] = {"from_step": 2, "from_stage": "compute_rewards", "repeats": (), "config": config()}
    versions = {"compute_rewards": 1}
    assert start_lineage(store, "r1", **wanted, stage_versions=versions) == 1
    assert start_lineage(store, "r1", **wanted, stage_versions=versions) == 1
    moved = config(tracking={"kind": "none"}, store={"kind": "local", "root": "/elsewhere"})
    assert start_lineage(store, "r1", **{**wanted, "config": moved}, stage_versions=versions) == 1
    others: list[dict[str, Any]] = [
        {"from_step": 1},
        {"from_stage": "update_policy"},
        {"config": config(seed=1)},
        {"config": config(evaluation={"num_problems": 3})},
        {"stage_versions": {"compute_rewards": 2}},
    ]
    for number, change in enumerate(others, start=2):
        assert start_lineage(store, "r1", **{**wanted, "stage_versions": versions, **change}) == number
    assert start_lineage(store, "r1", **wanted, stage_versions=versions) == len(others) + 2, "others began since"


def test_a_dropped_restart_leaves_the_run_what_it_was_and_its_number_is_not_used_again(store: ArtifactStore) -> None:
    freeze_config(store, "r1", config(), PIPELINE)
    begin(store, 1)
    changed = config(seed=5)
    begin(store, 2, changed=changed)
    with pytest.raises(ConfigurationError, match="--lineage 1: restart 2 began after it; drop that one first"):
        drop_lineage(store, "r1", 1)
    with pytest.raises(ConfigurationError, match="has no such restart; it has 1, 2"):
        drop_lineage(store, "r1", 3)
    for _ in range(2):
        drop_lineage(store, "r1", 2)
    assert [each.lineage for each in read_lineages(store, "r1")] == [1]
    assert freeze_config(store, "r1", config(), PIPELINE) == config(), "the configuration before it counts again"
    assert begin(store, 2, changed=changed) == 3
    drop_lineage(store, "r1", 3)
    drop_lineage(store, "r1", 1)
    assert read_lineages(store, "r1") == ()


def test_records_without_a_configuration_are_leftovers_unless_they_are_sessions(store: ArtifactStore) -> None:
    assert not has_leftovers(store, "r1")
    store.create("runs/r1/sessions/0001/start.json", b"{}")
    assert not has_leftovers(store, "r1")
    store.create("runs/r1/steps/000000/x/manifest.json", b"{}")
    assert has_leftovers(store, "r1")
    store.create("runs/r10/steps/000000/x/manifest.json", b"{}")
    freeze_config(store, "r1", config(), PIPELINE)
    assert not has_leftovers(store, "r1")


def test_runs_are_listed_without_those_that_never_froze(store: ArtifactStore) -> None:
    for run_id in ("b", "a.1", "a"):
        freeze_config(store, run_id, config(), PIPELINE)
    store.create("runs/_shared/steps/000000/x/manifest.json", b"{}")
    store.create("index/runs/crashed.json", b"{}")
    assert list_runs(store) == ["a", "a.1", "b"]
    assert store.read(index_key("absent")) is None
    assert read_config(store, "absent") is None


def restart(lineage: int, from_step: int, from_stage: str) -> Lineage:
    about: dict[str, Any] = {"repeats": PIPELINE.repeats(from_stage), "started_at": BEGIN, "config": config()}
    return Lineage(lineage=lineage, from_step=from_step, from_stage=from_stage, **about)


def test_the_highest_restart_that_has_begun_is_taken() -> None:
    lineages = [restart(1, 7, "compute_rewards"), restart(2, 3, "update_policy")]
    expected = {
        (2, "update_policy"): 0,
        (3, "compute_advantages"): 0,
        (3, "update_policy"): 2,
        (3, "publish_checkpoint"): 2,
        (7, "collect_rollouts"): 2,
        (7, "compute_rewards"): 2,
        (9, "warm_start"): 2,
    }
    assert {at: lineage_for(lineages, *at) for at in expected} == expected
    assert lineage_for([], 5, "update_policy") == 0
    assert lineage_for([restart(1, 7, "compute_rewards")], 7, "collect_rollouts") == 0
    assert lineage_for([restart(1, 7, "compute_rewards")], 7, "compute_rewards") == 1


@given(
    starts=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(STAGES)), max_size=4),
    points=st.lists(st.tuples(st.integers(0, 6), st.sampled_from(STAGES)), min_size=2, max_size=2),
)
def test_lineages_never_go_back_as_a_run_goes_on(starts: list[tuple[int, str]], points: list[tuple[int, str]]) -> None:
    lineages = [restart(number, *start) for number, start in enumerate(starts, start=1)]
    earlier, later = sorted(points, key=lambda point: (point[0], STAGES.index(point[1])))
    assert lineage_for(lineages, *earlier) <= lineage_for(lineages, *later)
    if starts:
        assert lineage_for(lineages, *starts[-1]) == len(starts)


def run_started_at(store: ArtifactStore, run_id: str) -> datetime:
    """The start time of the run in its index entry."""
    content = store.read(index_key(run_id))
    assert content is not None
    return datetime.fromisoformat(read_verified(index_key(run_id), content)["started_at"])


@pytest.mark.parametrize(
    ("endpoint", "option"),
    [("http://here:8333", ""), ("https://elsewhere", " --store s3://troupe"), (None, " --store s3://troupe")],
)
def test_a_bucket_of_the_same_name_on_another_server_is_named(
    endpoint: str | None, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://here:8333")
    assert store_option(S3ArtifactStore("troupe", endpoint_url=endpoint)) == option
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    assert store_option(S3ArtifactStore("troupe", endpoint_url=endpoint)) == " --store s3://troupe"
