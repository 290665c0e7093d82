"""The registry of MLflow: versions of teams, the best one, and addresses."""

from dataclasses import replace
from typing import Any

import pytest

from components.config import TrackingConfig
from components.errors import ConfigurationError
from components.session.trackers import resolve_model, set_alias, version_of
from components.tracking.base import TeamCheckpoint
from components.tracking.mlflow import MlflowTracker
from components.tracking.mlflow_registry import best_version
from tests.components.tracking.conftest import EXPERIMENT, MlflowReader
from tests.components.tracking.reports import evaluation, team


def tracker_at(url: str) -> MlflowTracker:
    return MlflowTracker(url, EXPERIMENT, register_models=True)


def test_a_twin_version_is_removed_at_the_next_repeat(mlflow: MlflowReader, mlflow_url: str) -> None:
    tracker, checkpoint = tracker_at(mlflow_url), team(1, "aa", model="twin-versions")
    tracker.publish_checkpoint("twins", checkpoint)
    (version,) = mlflow.model_versions("twins", "twin-versions")
    mlflow.client.create_model_version(version.name, version.source, tags=version.tags, await_creation_for=0)
    tracker.publish_checkpoint("twins", checkpoint)
    assert [row[0] for row in mlflow.versions("twins", "twin-versions")] == [1]


@pytest.mark.parametrize("others", [0, 2])
def test_of_two_trackers_that_register_at_once_one_version_is_left(
    others: int, mlflow: MlflowReader, mlflow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = tracker_at(mlflow_url), tracker_at(mlflow_url)
    name = f"at-once-{others}"
    for step in range(others):
        one.publish_checkpoint(name, team(step, "0", model=name))
    source, is_first = one._source, [True]

    def source_after_the_other_has_registered(mlflow_id: str, checkpoint: TeamCheckpoint) -> str:
        if is_first:
            is_first.clear()
            other.publish_checkpoint(name, checkpoint)
        return source(mlflow_id, checkpoint)

    monkeypatch.setattr(one, "_source", source_after_the_other_has_registered)
    one.publish_checkpoint(name, team(7, "aa", model=name))
    assert is_first == []
    assert [row[:2] for row in mlflow.versions(name, name)][others:] == [(others + 1, 7)]
    one.publish_checkpoint(name, team(8, "bb", model=name))
    assert [(step, parent) for _, step, _, _, parent in mlflow.versions(name, name)][-1] == (8, others + 1)


def test_a_tracker_that_registers_alone_searches_once(
    mlflow: MlflowReader, mlflow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker, searched = tracker_at(mlflow_url), []
    search = tracker.registry._find_registered
    monkeypatch.setattr(tracker.registry, "_find_registered", lambda *about: searched.append(about) or search(*about))
    for step in (1, 2, 3):
        tracker.publish_checkpoint("alone", team(step, f"{step}", model="alone"))
    assert [row[1] for row in mlflow.versions("alone", "alone")] == [1, 2, 3]
    assert len(searched) == 1


def test_runs_of_one_preset_are_versions_of_one_model(mlflow: MlflowReader, mlflow_url: str) -> None:
    one, other = tracker_at(mlflow_url), tracker_at(mlflow_url)
    for step in (0, 1, 2):
        one.publish_checkpoint("line-1", team(step, "aa", model="shared"))
        other.publish_checkpoint("line-2", team(step, "bb", model="shared"))
    assert [row[:2] for row in mlflow.versions("line-1", "shared")] == [(1, 0), (3, 1), (5, 2)]
    assert [row[4] for row in mlflow.versions("line-2", "shared")] == [None, 2, 4], "parents are of the same run"
    assert mlflow.client.get_model_version_by_alias("shared", "latest").version == "6"
    assert one.remove_run("line-1")[1] == "3 versions of model shared"
    assert [row[0] for row in mlflow.versions("line-2", "shared")] == [2, 4, 6]


def test_the_best_version_is_that_of_the_highest_success_and_of_equal_ones_the_earliest(
    mlflow: MlflowReader, mlflow_url: str
) -> None:
    tracker = tracker_at(mlflow_url)

    def evaluate(run_id: str, step: int, num_successes: int, **more: Any) -> int | None:
        tracker.publish_checkpoint(run_id, team(step, f"{step}", model="best-of"))
        report = replace(evaluation(step, num_successes=num_successes), **more)
        for _ in range(2):
            tracker.publish_evaluation(run_id, report, model="best-of", timestamp_ms=step)
        return tracker.registry.version_of("best-of", "best")

    assert tracker.registry.version_of("best-of", "best") is None
    assert evaluate("b", 0, 20) == 1
    assert evaluate("b", 1, 30) == 2
    assert evaluate("b", 2, 30) == 2, "the earlier of equal ones"
    assert evaluate("b", 3, 39, sampling="sample") == 2, "greedy play is compared with greedy play"
    assert evaluate("b2", 0, 31) == 5, "another run of the same line"
    assert evaluate("b2", 1, 1, suite_digest="other") == 6, "other problems are not compared with"
    version = mlflow.client.get_model_version("best-of", "2")
    assert (version.tags["troupe.success.greedy"], version.tags["troupe.success_interval.greedy"]) == (
        "0.75",
        "0.598 to 0.858",
    )
    assert version.description == "Step 1 of run b. Held-out success, greedy: 0.75 (95% interval 0.598 to 0.858)."
    tracker.registry.set_alias("best-of", "champion", 6)
    tracker.remove_run("b2")
    assert tracker.registry.version_of("best-of", "best") == 2
    assert tracker.registry.version_of("best-of", "champion") is None


def test_the_champion_is_the_version_of_its_step(mlflow: MlflowReader, mlflow_url: str) -> None:
    tracker = tracker_at(mlflow_url)
    tracker.open_run("champions", {}, {})
    for step in (3, 6):
        tracker.publish_checkpoint("champions", team(step, f"w{step}", model="champions"))
    assert tracker.registry.name_champion("champions", 6)
    assert tracker.registry.resolve("models:/champions@champion").step == 6
    assert not tracker.registry.name_champion("champions", 4)
    assert tracker.registry.resolve("models:/champions@champion").step == 6
    restarted = team(6, "restarted", model="champions")
    tracker.publish_checkpoint("champions", restarted)
    for weights in ("restarted", "w6"):
        wanted = team(6, weights, model="champions").digest
        assert tracker.registry.name_champion("champions", 6, weights=wanted)
        assert tracker.registry.resolve("models:/champions@champion").weights_digests == {"team": weights}
    assert not tracker.registry.name_champion("champions", 6, weights="gone")
    assert tracker.registry.resolve("models:/champions@champion").weights_digests == {"team": "w6"}


def test_the_best_of_none_is_none_and_greedy_play_counts_before_sampled() -> None:
    assert best_version({1: {}}) is None
    sampled = {f"troupe.success.{sampling}": "0.9" for sampling in ("sample",)}
    assert best_version({1: sampled, 2: {"troupe.success.greedy": "0.1"}}) == 2
    assert best_version({1: sampled}) == 1


def test_a_checkpoint_that_is_not_registered_is_evaluated_all_the_same(mlflow: MlflowReader, mlflow_url: str) -> None:
    tracker_at(mlflow_url).publish_evaluation("absent", evaluation(3), model="absent", timestamp_ms=1)
    assert mlflow.history("absent", "eval/greedy_success_rate") == [(3, 0.75)]
    assert mlflow.model_versions("absent", "absent") == []


def test_the_source_of_one_policy_is_its_folder(mlflow: MlflowReader, mlflow_url: str) -> None:
    tracker_at(mlflow_url).publish_checkpoint("sources", team(1, "aa", model="sources"))
    assert mlflow.client.get_model_version_by_alias("sources", "latest").source == "s3://b/folders/aa"


@pytest.mark.parametrize("about", [{"folder": "file:///data/f/aa"}, {"critic": "cc"}])
def test_local_folders_and_those_of_several_policies_are_registered_through_a_note(
    mlflow: MlflowReader, mlflow_url: str, about: dict[str, str]
) -> None:
    name = "noted-" + "".join(about)
    tracker_at(mlflow_url).publish_checkpoint(name, team(1, "aa", model=name, **about))
    (version,) = mlflow.model_versions(name, name)
    mlflow_id = mlflow.run(name).info.run_id
    assert version.source == f"runs:/{mlflow_id}/checkpoints/000001"
    artifacts = mlflow.client.list_artifacts(mlflow_id, "checkpoints/000001")
    assert [artifact.path for artifact in artifacts] == ["checkpoints/000001/checkpoint.json"]


def test_models_are_registered_only_when_asked(mlflow: MlflowReader, mlflow_url: str) -> None:
    tracker = MlflowTracker(mlflow_url, EXPERIMENT, register_models=False)
    tracker.publish_checkpoint("unregistered", team(1, "aa", model="unregistered"))
    tracker.publish_evaluation("unregistered", evaluation(1), model="unregistered", timestamp_ms=1)
    assert mlflow.model_versions("unregistered", "unregistered") == []


def test_an_address_leads_to_the_run_the_step_and_the_folders(mlflow: MlflowReader, mlflow_url: str) -> None:
    config = TrackingConfig(url=mlflow_url)
    tracker = tracker_at(mlflow_url)
    for step in (0, 5):
        tracker.publish_checkpoint("addressed", team(step, f"a{step}", model="address", critic="cc"))
    set_alias("address", "champion", 2, config=config)
    assert version_of("address", "champion", config=config) == 2
    found = resolve_model("models:/address@champion", config=config)
    assert (found.run_id, found.step, found.version) == ("addressed", 5, 2)
    assert found.folder_uris == {"team": "s3://b/folders/a5", "critic": "s3://b/cc"}
    assert found.weights_digests == {"team": "a5", "critic": "cc"}
    assert resolve_model("models:/address/1", config=config).step == 0
    assert resolve_model("models:/address@latest", config=config) == found


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("models:/misled", r"models:/NAME@ALIAS or models:/NAME/VERSION"),
        ("misled@best", r"'misled@best': write"),
        ("models:/misled/0", r"write models:/NAME"),
        ("models:/nothing@best", r"models:/nothing@best: .*nothing.*not found"),
        ("models:/misled@worst", r"models:/misled@worst: .*alias worst not found"),
        ("models:/misled/9", r"models:/misled/9: .*version=9.* not found"),
        ("models:/misled/1", r"models:/misled/1: the files of step 1 of run misled were removed by `troupe gc`"),
        ("models:/misled/2", r"version 2 was not registered by Troupe"),
    ],
)
def test_an_address_that_leads_nowhere_is_named(mlflow: MlflowReader, mlflow_url: str, uri: str, told: str) -> None:
    tracker = tracker_at(mlflow_url)
    if not mlflow.client.search_model_versions("name = 'misled'"):
        tracker.publish_checkpoint("misled", team(1, "aa", model="misled"))
        tracker.mark_files("misled", team(1, "aa", model="misled"), are_there=False)
        mlflow.client.create_model_version("misled", "s3://b/other", await_creation_for=0)
    with pytest.raises(ConfigurationError, match=told):
        tracker.registry.resolve(uri)


def test_an_alias_of_no_version_and_a_reserved_one_are_the_users_mistakes(mlflow_url: str) -> None:
    tracker = tracker_at(mlflow_url)
    tracker.publish_checkpoint("aliased", team(1, "aa", model="aliased"))
    for alias, version, told in (("champion", 8, "version=8"), ("latest", 1, "reserved")):
        with pytest.raises(ConfigurationError, match=told):
            tracker.registry.set_alias("aliased", alias, version)


def test_without_a_server_there_is_no_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(ConfigurationError, match=r"tracking\.url: .*troupe up"):
        resolve_model("models:/address@best")
