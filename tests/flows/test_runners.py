import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.environments.program import AgentProgram
from components.environments.shared.custom_rows import json_lines
from components.environments.shared.dataset_rows import DatasetSource, load_rows
from components.errors import ConfigurationError, ServiceMissing
from components.machine.sent_folder import SENT_FOLDER
from components.runs.run import Run
from flows import runners
from flows.presets import preset_config
from flows.runners import ask_cluster, check_boxes, check_files, join_cluster, start_engines_on_cluster


def test_a_run_ends_by_its_own_handler_though_ray_takes_the_signal() -> None:
    def end(number: int, frame: object) -> None: ...

    @contextmanager
    def connect() -> Iterator[None]:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        yield

    before = signal.signal(signal.SIGTERM, end)
    try:
        with join_cluster(connect(), ()):
            assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_ray_refuses_is_told_in_one_line_and_what_happens_inside_is_left_alone() -> None:
    @contextmanager
    def connect(error: Exception | None) -> Iterator[None]:
        if error is not None:
            raise error
        yield

    with (
        pytest.raises(ServiceMissing, match="does not let this process in: wrong token; look at `ray status`"),
        join_cluster(connect(RuntimeError("wrong token")), (RuntimeError,)),
    ):
        pass
    with pytest.raises(RuntimeError, match="inside"), join_cluster(connect(None), (RuntimeError,)):
        raise RuntimeError("inside")


@pytest.mark.parametrize(
    ("overrides", "has_boxes", "runs_programs", "expected"),
    [
        ([], True, True, {"num_gpus": 0, "resources": {"boxes": 1}}),
        ([], True, "agents", {"num_gpus": 0, "resources": {"boxes": 1}}),
        ([], True, False, {"num_gpus": 0, "resources": {}}),
        ([], False, True, {"num_gpus": 0, "resources": {}}),
        (["generation.device=cuda"], False, False, {"num_gpus": 1, "resources": {}}),
        (["generation.engine=vllm", "generation.device=cuda"], False, False, {"num_gpus": 0, "resources": {}}),
    ],
)
def test_shards_ask_for_a_gpu_or_for_boxes_where_they_need_them(
    overrides: list[str], has_boxes: bool, runs_programs: bool | str, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    context = pytest.importorskip("prefect_ray.context")
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0, **({"boxes": 8.0} if has_boxes else {})})
    session: Any = SimpleNamespace(
        config=preset_config("tiny", overrides),
        toolbox=SimpleNamespace(runs_programs=runs_programs is True),
        scenario=SimpleNamespace(family=SimpleNamespace(is_played_by_programs=runs_programs == "agents")),
    )
    with ask_cluster(session):
        assert context.RemoteOptionsContext.get().current_remote_options == expected


def test_hosts_that_play_programs_in_boxes_can_make_them(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [{"host": "a", "Resources": {"CPU": 1.0}}, {"host": "b", "Resources": {"CPU": 1.0}}]
    monkeypatch.setattr(runners, "_list_nodes", lambda: nodes)
    monkeypatch.setattr(
        runners,
        "_ask",
        lambda asked, question, name: {each["host"]: None if each["host"] == "a" else "/bin/bwrap" for each in asked},
    )

    family = SimpleNamespace(first_program=lambda options, seed: AgentProgram(command=("a",)))

    def check(where: str) -> None:
        config = preset_config("agent-plan-path", [f"sandbox.agents={where}"])
        session: Any = SimpleNamespace(config=config, scenario=SimpleNamespace(family=family, options=None))
        check_boxes(session)

    check("trusted")
    with pytest.raises(ServiceMissing, match="a of the Ray cluster cannot make boxes; `apt-get install -y bubblewrap`"):
        check("box")
    nodes[1]["Resources"] = {"boxes": 8.0}  # so that all shards go there
    check("box")


OUTSIDE = {"name": "math", "options": {"test_source": "/data/rows.jsonl", "train_source": "openai/gsm8k"}}


@pytest.mark.parametrize(
    ("environment", "is_sent", "says"),
    [
        ({"name": "agent", "options": {"files": ["agent.py"]}}, True, None),
        ({"name": "agent", "options": {"problems": {"path": "rows.jsonl"}}}, True, None),
        ({"name": "search", "options": {"corpus": "rows.jsonl"}}, True, None),
        (
            OUTSIDE,
            False,
            "environment.options: /data/rows.jsonl is not on w1 of the Ray cluster; put it into the current folder",
        ),
        ({"name": "plan_path", "options": {}}, False, None),
    ],
)
def test_files_that_an_environment_reads_travel_or_are_on_all_hosts(
    environment: Any, is_sent: bool, says: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"n": 1}\n')
    monkeypatch.setattr(runners, "hosts_without", lambda path: ["w1"])
    config = preset_config("tiny", [])
    config = config.model_copy(update={"environment": config.environment.model_copy(update=environment)})
    around = runners._ray_settings(config)["runtime_env"]
    assert (around.get("working_dir"), around["env_vars"].get(SENT_FOLDER)) == (
        (str(tmp_path),) * 2 if is_sent else (None,) * 2
    )
    with pytest.raises(ConfigurationError, match=says) if says else nullcontext():
        check_files(config)
    if is_sent:
        monkeypatch.setattr(runners, "_MOST_SENT_BYTES", 8)
        (tmp_path / ".venv-own").mkdir()
        (tmp_path / "rows.jsonl").rename(tmp_path / ".venv-own/large")
        assert "working_dir" in runners._ray_settings(config)["runtime_env"], "what is not sent does not count"
        (tmp_path / ".venv-own/large").rename(tmp_path / "rows.jsonl")
        assert "working_dir" not in runners._ray_settings(config)["runtime_env"]
        with pytest.raises(ConfigurationError, match=f"{tmp_path}/.* is not on w1"):
            check_files(config)


def test_a_worker_finds_what_was_sent_in_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(SENT_FOLDER, "/home/ann/mine")
    (tmp_path / "rows.jsonl").write_text('{"n": 1}\n')
    (tmp_path / "rows.csv").write_text("n\n1\n")
    assert [value for _, value in json_lines(Path("/home/ann/mine/rows.jsonl"), "p")] == [{"n": 1}]
    assert [*load_rows(DatasetSource(path="/home/ann/mine/rows.csv"), "p")] == [{"n": 1}]
    with pytest.raises(ConfigurationError, match=r"p\.path '/home/ann/other/rows\.csv': no such file"):
        load_rows(DatasetSource(path="/home/ann/other/rows.csv"), "p")


@pytest.mark.parametrize(
    ("overrides", "is_started"),
    [
        (["resources.runner=ray", "generation.engine=vllm"], True),
        (["generation.engine=vllm"], False),
        (["resources.runner=ray"], False),
        (["resources.runner=ray", "generation.engine=vllm", "generation.vllm.urls=[http://a:1]"], False),
    ],
)
def test_a_run_starts_its_servers_on_the_cluster_unless_others_are_named(
    overrides: list[str], is_started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TROUPE_VLLM_URLS", raising=False)
    monkeypatch.setattr(runners, "checkpoints_before", lambda store, run, step: ("those of", run.run_id, step))
    monkeypatch.setattr(runners, "start_engines", lambda run, checkpoints: checkpoints)
    started: list[Any] = []
    run = Run(run_id="r", config=preset_config("tiny", overrides))
    trainers = SimpleNamespace(keep=lambda name, make: started.append(make()))
    session: Any = SimpleNamespace(run=run, store=None, trainers=trainers)
    start_engines_on_cluster(session)
    assert started == ([("those of", "r", 0)] if is_started else [])
