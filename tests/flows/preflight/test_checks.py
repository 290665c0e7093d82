"""Faults that preflight finds, and those that do not prevent a start."""

import logging
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.config import EnvironmentConfig, ResourceConfig, RolloutConfig
from components.errors import ConfigurationError, ServiceMissing, StoreRefused
from components.methods.hybrid import settings as hybrid_settings
from components.runs.run import Run
from components.session import toolbox
from components.session.engines import Engines
from components.session.scenario import scenario_of
from components.session.session import Session
from components.session.toolbox import Toolbox
from components.session.trackers import tracker_of
from flows.preflight import checks
from flows.preflight.checks import check_environment, check_space, check_tracking
from flows.presets import preset_config
from flows.runners import check_ray
from tests.recorded_calls import RecordedCalls


def ray_at(address: str | None) -> ResourceConfig:
    return ResourceConfig(runner="ray", ray_address=address)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", None])
def test_a_run_starts_without_mlflow_and_says_so_in_one_line(
    url: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    overrides = [f"tracking.url={url}"] if url else []
    with caplog.at_level(logging.WARNING):
        check_tracking(tracker_of(preset_config("tiny", overrides).tracking))
    (record,) = caplog.records
    assert record.getMessage().startswith("training starts without MLflow, reports wait in the store: ")
    assert "troupe up" in record.getMessage()


@pytest.mark.parametrize(
    ("overrides", "error", "told"),
    [
        (["agents={plan_agent: {policy: team}}"], ConfigurationError, r"agents: \['plan_agent'\] given"),
        (["loss.policy_loss=nowhere:loss"], ConfigurationError, r"loss\.policy_loss 'nowhere:loss'"),
        (["rewards.functions=[nowhere:mine]"], ConfigurationError, r"nowhere:mine.*no module 'nowhere'"),
        (["agents.plan_agent.stop=[é]"], ConfigurationError, r"has no character 'é'"),
        (["resources.runner=ray", "resources.ray_address='ray://head'"], ConfigurationError, r"resources\.ray_address"),
        (["store.root=/dev/null/store"], StoreRefused, r"store\.root /dev/null/store"),
        (["policies.team.base=/no/model"], ConfigurationError, r"policies\.team\.base '/no/model'"),
        (["environment={name: math, max_turns: 1}", "agents={tool_agent: {policy: team}, reasoner: {policy: team}}"],
         ServiceMissing, "no boxes here"),
        (["environment={name: game_boy, answer_format: choice}", "agents={player: {policy: team}}"], ServiceMissing,
         "environment.options.game homebrew needs PyBoy: .*, or set environment.options.game to twin"),
        (["tracking={kind: mlflow, url: 'http://mlfow:5000'}"], ConfigurationError, r"tracking\.url http://mlfow:5000"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_run_ends_it_before_it_begins(
    overrides: list[str], error: type[Exception], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_boxes(*_: object) -> None:
        raise ServiceMissing("no boxes here")

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(toolbox, "new_sandbox", no_boxes)
    monkeypatch.setattr(hybrid_settings, "find_spec", lambda _: None)
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    local = ["store.kind=local", f"store.root={tmp_path}", "tracking.kind=none"]
    with (
        Session(Run(run_id="wrong", config=preset_config("tiny", [*local, *overrides]))) as session,
        pytest.raises(error, match=told),
    ):
        checks.preflight(session)


def test_a_solvers_values_need_an_environment_with_a_solver() -> None:
    check_environment(scenario_of(preset_config("tiny", ["algorithm.advantage=solver_value"])))
    with pytest.raises(ConfigurationError, match="solver_value: environment code has no exact solver"):
        check_environment(scenario_of(preset_config("code-tiny", ["algorithm.advantage=solver_value"])))


def test_a_full_folder_for_temporary_files_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "LEAST_FREE_BYTES", 1 << 62)
    with pytest.raises(ServiceMissing, match=r"TMPDIR /.* let TMPDIR name another folder"):
        check_space(preset_config("tiny"))


@pytest.mark.parametrize(("flags", "is_warned"), [("fpu avx2", True), ("fpu avx512_bf16", False)])
def test_bfloat16_that_a_processor_imitates_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, flags: str, is_warned: bool
) -> None:
    facts = tmp_path / "cpuinfo"
    facts.write_text(f"flags\t\t: {flags}\n")
    monkeypatch.setattr(checks, "PROCESSOR_FACTS", facts)
    checks.check_devices(preset_config("tiny"))
    assert not caplog.records
    checks.check_devices(preset_config("math-smollm"))
    assert ("generation.dtype and training.dtype bfloat16" in caplog.text) == is_warned


def test_a_dead_ray_address_is_told_at_once() -> None:
    with pytest.raises(
        ServiceMissing, match=r"resources\.ray_address 'ray://127\.0\.0\.1:9': nothing answers.*ray start"
    ):
        check_ray(ray_at("ray://127.0.0.1:9"))


@pytest.mark.parametrize("address", ["head", "http://head:1", "ray://head", "head:port", "ray://:1"])
def test_a_ray_address_that_cannot_be_is_the_users_mistake(address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"resources\.ray_address .*write ray://host:port"):
        check_ray(ray_at(address))


def test_a_ray_that_answers_or_is_started_here_passes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for address in (f"ray://127.0.0.1:{port}", f"127.0.0.1:{port}", "auto", None):
            check_ray(ray_at(address))
    check_ray(ResourceConfig(ray_address="nowhere:1"))


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["rollout.branching=[2, 2, 2]"], r"rollout\.branching \[2, 2, 2\]: a turn has 2 actions"),
        (["rollout.group_size=3"], r"rollout\.group_size 3 with mode nested: 2 agents"),
        (
            ["environment.turn_order=[plan_agent]", "agents={plan_agent: {policy: team}}", "rollout.branching=[2, 4]"],
            "has 1 actions",
        ),
    ],
)
def test_fan_outs_are_checked_against_the_turn_order(overrides: list[str], told: str) -> None:
    nested = ["rollout.mode=nested", "rollout.random_handoff_probability=0"]
    with pytest.raises(ConfigurationError, match=told):
        check_environment(scenario_of(preset_config("tiny", [*nested, *overrides])))


BRANCHING = """
from troupe import Environment, Step


class Letters(Environment):
    roles = ("writer", "editor")

    def draw(self, options, rng):
        return {"number": rng.randrange(1000)}

    def observe(self, state, agent):
        return str(state["number"])

    def step(self, state, agent, answer):
        return Step(state=state, solved=answer == "1")

    def next_role(self, state):
        return "writer"
"""


def test_a_team_that_branches_has_no_turns_to_continue_or_expand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "letters_of_preflight.py").write_text(BRANCHING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    plain = preset_config("tiny", ["rollout.random_handoff_probability=0"])
    agents = dict.fromkeys(("writer", "editor"), plain.agents["plan_agent"])
    environment = EnvironmentConfig(name="letters_of_preflight:Letters")
    letters = plain.model_copy(update={"environment": environment, "agents": agents})
    at_end, at_turn = (plain.rewards.model_copy(update={"team_credit": name}) for name in ("episode_end", "turn_end"))
    check_environment(scenario_of(letters.model_copy(update={"rewards": at_end})))
    with pytest.raises(ConfigurationError, match=r"team_credit turn_end: .*Letters decides who acts next.*episode_end"):
        check_environment(scenario_of(letters.model_copy(update={"rewards": at_turn})))
    with pytest.raises(ConfigurationError, match=r"mode nested expands a turn of a fixed order"):
        check_environment(scenario_of(letters.model_copy(update={"rollout": RolloutConfig(mode="nested")})))


@pytest.mark.parametrize(
    ("mode", "team_credit", "turn_order", "told"),
    [
        ("tree", "node", None, r"team_credit node with rollout\.mode tree.*judged at its end.*use episode_end, or"),
        ("tree", "turn_end", None, r"team_credit turn_end: .*decides who acts next.*use episode_end"),
        (
            "nested",
            "node",
            ("boss", "clerk"),
            r"environment\.turn_order: .*decides who acts next; leave turn_order out",
        ),
        ("tree", "episode_end", None, None),
        ("nested", "node", None, None),
    ],
)
def test_what_is_compared_inside_a_program_is_judged(
    mode: Any, team_credit: Any, turn_order: Any, told: str | None
) -> None:
    plain = preset_config("tiny", ["rollout.random_handoff_probability=0"])
    changes = {
        "environment": EnvironmentConfig(name="tests.components.gateway.test_play:Office", turn_order=turn_order),
        "agents": dict.fromkeys(("clerk", "boss"), plain.agents["plan_agent"]),
        "rollout": RolloutConfig(mode=mode),
        "rewards": plain.rewards.model_copy(update={"team_credit": team_credit}),
    }
    scenario = scenario_of(plain.model_copy(update=changes))
    if told is None:
        check_environment(scenario)
        return
    with pytest.raises(ConfigurationError, match=told):
        check_environment(scenario)


BEFORE_SERVICES = (
    *(
        "check_environment",
        "check_own_code",
        "check_contract",
        "check_problem_counts",
        "check_prompts",
        "check_devices",
        "check_ray",
    ),
    "check_space",
)


@pytest.mark.parametrize(
    ("engine", "urls", "runner"),
    [
        ("local", "[]", "thread"),
        ("vllm", "[]", "thread"),
        ("vllm", "[]", "ray"),
        ("vllm", "['http://127.0.0.1:9']", "ray"),
    ],
)
@pytest.mark.parametrize("kind", ["local", "s3"])
def test_every_check_is_made_once_before_or_with_the_services(
    engine: str, urls: str, runner: str, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = RecordedCalls()
    for name in (*BEFORE_SERVICES, "check_store", "task_runner", "check_tracking", "check_memory"):
        calls.replace(monkeypatch, checks, name)
    engines = calls.object(Engines, "engines")
    monkeypatch.setattr(checks, "Engines", lambda config: engines)
    generation = [f"generation.engine={engine}", f"generation.vllm.urls={urls}"] if engine == "vllm" else []
    settings = [f"store.kind={kind}", f"store.root={tmp_path}", f"resources.runner={runner}"]
    config = preset_config("tiny", [*settings, *generation])
    # Those of a cluster start with the run.
    has_servers, are_ours = urls != "[]", (engine, urls, runner) == ("vllm", "[]", "thread")
    session: Any = SimpleNamespace(config=config, scenario=scenario_of(config), engines=engines, tracker="tracker")
    session.toolbox = calls.object(Toolbox, "toolbox")
    checks.check_configuration(session.scenario)
    store = ["check_store"]
    servers = ["engines.check_servers"]
    assert [name for name, _ in calls] == [
        *BEFORE_SERVICES,
        "engines.check_apis",
        *(servers if has_servers else []),
        "engines.close",
        *(store if kind == "local" else []),
    ]
    assert [arguments.get("scenario", session.scenario) for _, arguments in calls] == [session.scenario] * len(calls)
    calls.clear()
    checks.check_services(session)
    assert [name for name, _ in calls] == [
        "task_runner",
        "toolbox.open",
        "check_contract",
        *(servers if are_ours else []),
        *(store if kind == "s3" else []),
        "check_tracking",
        "check_memory",
    ]


def test_merged_adapters_are_not_for_servers_of_a_cluster() -> None:
    generation = ("generation.engine=vllm", "generation.vllm.merge_adapters=true")
    config = preset_config("tiny", ["resources.runner=ray", *generation])
    session: Any = SimpleNamespace(
        config=config, scenario=scenario_of(config), toolbox=SimpleNamespace(open=lambda: None)
    )
    with pytest.raises(ConfigurationError, match=r"merge_adapters true: servers of a cluster"):
        checks.check_services(session)
