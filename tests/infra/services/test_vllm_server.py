"""How vLLM servers would be started; real ones are in tests/integration/test_vllm_engine.py."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from components.config import GenerationConfig, VllmConfig
from components.errors import ConfigurationError, ServiceMissing
from components.generation.vllm import launch
from components.generation.vllm.addresses import server_key, server_urls, spell_urls
from components.generation.vllm.launch import START, ServedModel, check_head_size, lora_rank_for
from components.machine import scratch
from components.models.model_groups import name_served_model, name_served_models
from flows.presets import preset_config
from infra.services.service import NotReady
from infra.services.vllm_server import VllmService, key_file
from infra.services.vllm_stack import down_vllm, up_vllm, vllm_addresses
from tests.components.generation.vllm.wire_server import KEY, wire_server
from tests.sections import choose_generation

TINY = "{base: tiny, tiny: {hidden_size: 96, num_heads: 3}}"
ADAPTED = "{base: tiny, adapter: {rank: 12}}"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that looks as if `make vllm` had run, and room for servers' scratch folders."""
    environment = tmp_path / "vllm-environment"
    (environment / "lib/python3.11/site-packages/vllm").mkdir(parents=True)
    (environment / "bin").mkdir()
    (environment / "bin" / "python").touch()
    monkeypatch.setattr(launch, "ENVIRONMENT", environment)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "SHORT_PARENT", tmp_path)
    return environment


def serving() -> Any:
    """The module that becomes a server; it is no package's."""
    spec = importlib.util.spec_from_file_location("serve", START)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def flags_of(config: GenerationConfig, model: ServedModel, home: Path, *, index: int = 0) -> dict[str, str]:
    """Option -> value, "" for a switch, of the server that the start becomes."""
    (_, start, *own) = VllmService(index, model, config).launch(home, {"vllm": 8123}, {}).command
    assert start == str(START)
    (_, _, _, *options) = serving().command(own, cpu=config.device == "cpu")
    words = [word for option in options for word in option.split("=")]
    return {
        word: "" if following.startswith("--") else following
        for word, following in zip(words, [*words[1:], "--"], strict=True)
        if word.startswith("--")
    }


def test_a_server_of_full_weights_on_the_cpu(installed: Path, tmp_path: Path) -> None:
    config = choose_generation(engine="vllm", vllm=VllmConfig(kv_cache_gib=0.5, max_model_tokens=300))
    flags = flags_of(config, ServedModel(name="team", folder=tmp_path / "m"), tmp_path)
    assert flags["--model"] == str(tmp_path / "m")
    assert flags["--served-model-name"] == "team"
    assert (flags["--host"], flags["--port"]) == ("127.0.0.1", "8123")
    assert flags["--logprobs-mode"] == "processed_logprobs"
    assert flags["--generation-config"] == "vllm"
    assert flags["--kv-cache-memory-bytes"] == str(2**29)
    assert flags["--max-model-len"] == "300"
    assert {"--enable-scale-out", "--enforce-eager"} <= set(flags)
    assert "--enable-lora" not in flags
    assert (START.parent / (flags["--worker-extension-cls"].partition(".")[0] + ".py")).is_file()


def test_adapters_and_a_gpu_change_the_flags(installed: Path, tmp_path: Path) -> None:
    config = choose_generation(engine="vllm", device="cuda", dtype="bfloat16", vllm={"tensor_parallel_size": 2})
    flags = flags_of(
        config, ServedModel(name="a+b", folder=tmp_path, num_adapters=2, max_rank=12, memory_fraction=0.3), tmp_path
    )
    assert flags["--tensor-parallel-size"] == "2"
    assert (flags["--max-loras"], flags["--max-cpu-loras"], flags["--max-lora-rank"]) == ("2", "5", "16")
    assert flags["--gpu-memory-utilization"] == "0.3"
    assert flags["--dtype"] == "bfloat16"
    assert {"--enforce-eager", "--kv-cache-memory-bytes", "--max-model-len"}.isdisjoint(flags)


def test_servers_take_turns_at_the_cpus(installed: Path, tmp_path: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    bound = []
    for index in range(len(allowed) + 1):
        service = VllmService(
            index, ServedModel(name="m", folder=tmp_path), choose_generation(engine="vllm", num_threads=1)
        )
        launch = service.launch(tmp_path, {"vllm": 1}, {})
        bound.append(int(launch.env["VLLM_CPU_OMP_THREADS_BIND"]))
    assert bound == [*allowed, allowed[0]]
    many = VllmService(0, ServedModel(name="m", folder=tmp_path), choose_generation(engine="vllm", num_threads=500))
    assert many.launch(tmp_path, {"vllm": 1}, {}).env["VLLM_CPU_OMP_THREADS_BIND"] == ",".join(map(str, allowed))


def test_a_server_finds_its_extension_and_keeps_what_it_inherits() -> None:
    for cpu in (True, False):
        env = serving().environment({"HOME": "/h", "PYTHONPATH": "/mine", "VLLM_SERVER_DEV_MODE": "0"}, cpu=cpu)
        assert env["PYTHONPATH"].split(os.pathsep) == [str(START.parent), "/mine"]
        assert (env["HOME"], env["VLLM_SERVER_DEV_MODE"], env["SPT_NOENV"]) == ("/h", "1", "1")
        assert ("TORCH_COMPILE_DISABLE" in env) is cpu


STARTER = """
import subprocess, sys
with subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], stdin=subprocess.PIPE, start_new_session=True) as server:
    server.wait()
"""
STUBBORN = f"""
import signal, subprocess, sys
sys.path.insert(0, {str(START.parent)!r})
import serve
serve.GRACE_SECONDS = 0.2
serve.end_with_input()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.run(["sleep", sys.argv[1]], preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
"""


@pytest.mark.parametrize("killed", ["starter", "server"])
def test_a_server_and_what_it_started_end_with_what_started_it(killed: str, tmp_path: Path) -> None:
    """However that ends, whether it kills the server first, and though nobody listens."""
    seconds = f"60.{os.getpid()}{time.monotonic_ns()}"

    def list_running() -> list[list[str]]:
        lines = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
        return [line for line in lines if seconds in line]

    env = {**os.environ, "TMPDIR": str(tmp_path / "scratch")}
    (tmp_path / "scratch").mkdir()
    with subprocess.Popen([sys.executable, "-c", STARTER, STUBBORN, seconds], env=env) as starter:
        while ["sleep", seconds] not in list_running():
            assert starter.poll() is None
            time.sleep(0.05)
        (server,) = psutil.Process(starter.pid).children()
        (starter if killed == "starter" else server).kill()
    deadline = time.monotonic() + 60
    while list_running():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not (tmp_path / "scratch").exists()


def test_what_a_server_leaves_in_its_scratch_folder_goes_with_it(installed: Path, tmp_path: Path) -> None:
    service = VllmService(0, ServedModel(name="m", folder=tmp_path), choose_generation(engine="vllm"))
    scratch = Path(service.launch(tmp_path, {"vllm": 1}, {}).env["TMPDIR"])
    (scratch / "socket").touch()
    assert Path(service.launch(tmp_path, {"vllm": 1}, {}).env["TMPDIR"]) == scratch
    assert list(scratch.iterdir()) == []
    service.clean({"vllm": 2})
    assert scratch.is_dir()
    service.clean({"vllm": 1})
    assert not scratch.exists()


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_planted_at_the_scratch_folders_name_is_refused(kind: str, installed: Path, tmp_path: Path) -> None:
    service = VllmService(0, ServedModel(name="m", folder=tmp_path), choose_generation(engine="vllm"))
    scratch = Path(service.launch(tmp_path, {"vllm": 1}, {}).env["TMPDIR"])
    shutil.rmtree(scratch.parent)
    (tmp_path / "victim" / "1").mkdir(parents=True)
    scratch.parent.symlink_to(tmp_path / "victim") if kind == "link" else scratch.parent.touch()
    for act in (service.launch, lambda _, ports, __: service.clean(ports)):
        with pytest.raises(PermissionError, match=scratch.parent.name):
            act(tmp_path, {"vllm": 1}, {})
    assert (tmp_path / "victim" / "1").is_dir()


def test_the_key_is_in_a_private_file_and_nowhere_else(installed: Path, tmp_path: Path) -> None:
    service = VllmService(0, ServedModel(name="m", folder=tmp_path), choose_generation(engine="vllm"))
    launch = service.launch(tmp_path, {"vllm": 1}, {})
    file = Path(launch.env["TROUPE_VLLM_KEY_FILE"])
    assert file == key_file(tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() not in " ".join([*launch.command, *launch.env.values()])
    assert "--middleware=troupe_guard.Guard" in serving().command((), cpu=True)
    assert serving().environment({"VLLM_API_KEY": "mine"}, cpu=True)["VLLM_API_KEY"] == ""


def test_a_server_is_ready_when_it_answers_to_its_key(tmp_path: Path) -> None:
    service = VllmService(0, ServedModel(name="team", folder=tmp_path), choose_generation(engine="vllm"))
    with wire_server() as server:
        ports = {"vllm": server.server_port}
        with pytest.raises(NotReady, match="HTTP 401"):
            service.check(tmp_path, ports)
        assert service.serves(ports)
        key_file(tmp_path).write_text(KEY)
        service.check(tmp_path, ports)


def test_the_key_is_read_from_the_file_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    here, there = tmp_path / "here", tmp_path / "there"
    here.write_text("of-this-machine\n")
    there.write_text("of-another\n")
    local = preset_config("tiny", ["generation.engine=vllm"])
    far = ["generation.engine=vllm", "generation.vllm.urls=[http://far:1]"]
    variables = spell_urls(["http://a:1"], here)
    assert server_key(local, variables) == "of-this-machine"
    assert server_key(preset_config("tiny", [*far, "generation.vllm.key_file=~/there"]), variables) == "of-another"
    with pytest.raises(ConfigurationError, match=r"generation\.vllm\.key_file must name"):
        server_key(preset_config("tiny", far), variables)
    with pytest.raises(ConfigurationError, match="TROUPE_VLLM_KEY_FILE, beside TROUPE_VLLM_URLS, must name"):
        server_key(local, {"TROUPE_VLLM_URLS": "http://a:1"})
    with pytest.raises(
        ServiceMissing, match="no servers are known; start them with `troupe up --engine vllm --preset tiny`"
    ):
        server_key(local, {})
    with pytest.raises(ConfigurationError, match="cannot be read"):
        server_key(local, spell_urls(["http://a:1"], tmp_path / "none"))
    for wrong in ("", "two\nlines", "\u00e9"):
        here.write_text(wrong)
        with pytest.raises(ConfigurationError, match="one line of printable ASCII") as raised:
            server_key(local, variables)
        assert not wrong or wrong not in str(raised.value)


def test_the_image_starts_the_same_server() -> None:
    recipe = (START.parents[1] / "images" / "vllm.Dockerfile").read_text()
    stages = recipe.split("\nFROM ")[1:]
    assert len(stages) == 2
    pinned = (START.parent / "requirements-gpu.in").read_text().split()[0].removeprefix("vllm==")
    assert f"vllm-openai:v{pinned} AS gpu" in stages[1]
    for stage in stages:
        assert 'ENTRYPOINT ["python3", "/opt/troupe/serve.py"]' in stage
        copied = re.findall(r"COPY (.*) /opt/troupe/", stage)
        assert {"serve.py", "troupe_guard.py", "troupe_weights.py", "troupe_worker.py"} <= {
            Path(name).name for name in " ".join(copied).split()
        }
        assert all((START.parents[2] / name).is_file() for names in copied for name in names.split())


def test_without_vllm_it_says_make_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "ENVIRONMENT", tmp_path / "nowhere")
    with pytest.raises(ServiceMissing, match="run `make vllm`"):
        up_vllm(tmp_path / "home", preset_config("tiny", ["generation.engine=vllm"]))
    assert not (tmp_path / "home").exists()


def test_without_libnuma_it_says_what_to_install(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "find_library", lambda name: None)
    on_cpu, on_gpu = (
        VllmService(
            0,
            ServedModel(name="m", folder=tmp_path, memory_fraction=0.9),
            choose_generation(engine="vllm", device=device),
        )
        for device in ("cpu", "cuda")
    )
    with pytest.raises(ServiceMissing, match="apt-get install -y libnuma1"):
        on_cpu.launch(tmp_path, {"vllm": 1}, {})
    assert on_gpu.launch(tmp_path, {"vllm": 1}, {}).command


def test_servers_that_run_elsewhere_are_not_started(tmp_path: Path) -> None:
    config = preset_config("tiny", ["generation.engine=vllm", "generation.vllm.urls=[http://far:1, http://far:2]"])
    assert list(up_vllm(tmp_path / "home", config).values()) == ["http://far:1", "http://far:2"]
    assert not (tmp_path / "home").exists()


def test_a_home_without_servers_has_none_to_stop(tmp_path: Path) -> None:
    assert down_vllm(tmp_path / "never") == []
    assert vllm_addresses(tmp_path / "never") == {}


@pytest.mark.parametrize(("rank", "allowed"), [(1, 1), (2, 8), (8, 8), (9, 16), (512, 512)])
def test_ranks_are_rounded_up(rank: int, allowed: int) -> None:
    assert lora_rank_for(rank) == allowed


def test_a_rank_that_is_too_large_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"adapter\.rank 513"):
        lora_rank_for(513)


def test_heads_without_a_cpu_kernel_are_refused_before_the_start(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 96, "num_attention_heads": 4}')
    with pytest.raises(ConfigurationError, match=r"heads of 24.*num_heads"):
        check_head_size(tmp_path, "cpu")
    check_head_size(tmp_path, "cuda")
    (tmp_path / "config.json").write_text('{"hidden_size": 96, "num_attention_heads": 4, "head_dim": 32}')
    check_head_size(tmp_path, "cpu")


def test_which_servers_serve_which_policies() -> None:
    agents = "agents={tool_agent: {policy: tool}, plan_agent: {policy: plan}}"
    vllm = "generation.engine=vllm"
    own = preset_config("tiny", [f"policies={{tool: {TINY}, plan: {TINY}}}", agents, vllm])
    assert name_served_models(own) == {"plan": ("plan",), "tool": ("tool",)}
    adapted = preset_config("tiny", [f"policies={{tool: {ADAPTED}, plan: {ADAPTED}}}", agents, vllm])
    assert name_served_models(adapted) == {"plan+tool": ("plan", "tool")}
    assert name_served_model(adapted, "tool") == "plan+tool"
    merged = [f"policies={{tool: {ADAPTED}, plan: {ADAPTED}}}", agents, vllm, "generation.vllm.merge_adapters=true"]
    assert name_served_models(preset_config("tiny", merged)) == {"plan": ("plan",), "tool": ("tool",)}


def test_addresses_come_from_the_configuration_or_the_environment() -> None:
    plain, far = (
        preset_config("tiny", ["generation.engine=vllm"]),
        preset_config("tiny", ["generation.engine=vllm", "generation.vllm.urls=[http://far:1]"]),
    )
    variables = spell_urls(["http://a:1", "http://b:2"], Path("/k"))
    assert server_urls(plain, variables) == ("http://a:1", "http://b:2")
    assert server_urls(far, variables) == ("http://far:1",)
    assert server_urls(plain, spell_urls([], Path("/k"))) == ()
    with pytest.raises(ConfigurationError, match="must be an http"):
        preset_config("tiny", ["generation.engine=vllm", "generation.vllm.urls=[far]"])
