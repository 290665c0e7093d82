import pickle
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from components.artifacts import layout
from components.artifacts.base import SignedFile
from components.config import AdapterConfig, VllmConfig
from components.errors import ArtifactCorrupt, ConfigurationError, EngineUnavailable, LogprobMismatch, StaleEngine
from components.gateway.base import AgentRequest, Message
from components.gateway.endpoint import Endpoint
from components.gateway.program_play import serve_seat
from components.generation.base import GenerationRequest
from components.generation.refresh import refresh
from components.generation.vllm import fleet
from components.generation.vllm.engine import VllmGenerator
from components.generation.vllm.fleet import Servers
from components.generation.vllm.loaded_weights import parse_loaded_weights
from components.generation.vllm.router import choose_replica
from components.generation.vllm.wire import prompt_key
from components.models.adapters import adapter_tensors, add_adapter, compute_adapted_digest, write_adapter
from components.models.digests import model_digest, tensors_digest
from components.rollout.router import RoleBinding
from components.schema import PolicyVersion
from components.training.base import Probe
from tests.components.generation.tiny_models import random_model, save_model
from tests.components.generation.vllm import wire_server as wire
from tests.components.generation.vllm.wire_server import (
    KEY,
    VllmWireServer,
    bytes_of,
    logprob_of,
    sample_tokens,
    wire_server,
)
from tests.sections import choose_generation

SHAPE = AdapterConfig(rank=2, alpha=4.0)
PROMPT, COMPLETION = (2, 5, 3, 9), (4, 4, 6, 1)
Make = Callable[..., VllmGenerator]


def request_of(*seeds: int, prompt: tuple[int, ...] = PROMPT, temperature: float = 0.7) -> GenerationRequest:
    return GenerationRequest(prompt_tokens=prompt, seeds_K=seeds, max_new_tokens=3, temperature=temperature)


def requests_over(servers: list[VllmWireServer], num_each: int) -> list[GenerationRequest]:
    """Prompts of two candidates, the same number of them at home with each server."""
    requests, left = [], {server.url: num_each for server in servers}
    for number in range(10_000):
        prompt = (2, 3 + number % 7, number)
        home = choose_replica(dict.fromkeys(left, 0), prompt_key(prompt), places=1, slack=0)
        if home is not None and left[home]:
            left[home] -= 1
            requests.append(request_of(2 * number, 2 * number + 1, prompt=prompt))
        if not any(left.values()):
            return requests
    raise AssertionError(left)


def adapter_of(policy: str, folder: Path, base: PolicyVersion, *, seed: int, step: int = 1) -> PolicyVersion:
    """An adapter that changes something, in `folder`; the version that it makes of `base`."""
    model = random_model(seed=0)
    add_adapter(model, policy, SHAPE, seed=seed)
    tensors = adapter_tensors(model, policy)
    torch.manual_seed(seed)
    changed = {name: torch.randn_like(tensor) for name, tensor in tensors.items()}
    write_adapter(changed, SHAPE, folder)
    digest = compute_adapted_digest(base.weights_digest, tensors_digest(changed))
    return PolicyVersion(policy=policy, step=step, weights_digest=digest)


def name_adapter(version: PolicyVersion) -> str:
    """The name under which it is served."""
    return f"{version.policy}@{version.weights_digest[:16]}"


def probe_under(weights: str) -> Probe:
    """The trainer's side of the server's arithmetic."""
    logprobs = tuple(logprob_of(weights, token, len(PROMPT) + at) for at, token in enumerate(COMPLETION))
    return Probe(prompt_tokens=PROMPT, completion_tokens=COMPLETION, trainer_logprobs=logprobs)


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[VllmGenerator] = []

    def generator(*servers: VllmWireServer, model: str = "team", **options: Any) -> VllmGenerator:
        vllm = {"max_requests_at_once": 4, "health_timeout_seconds": 2.0, "request_timeout_seconds": 15, **options}
        config = choose_generation(engine="vllm", vllm=VllmConfig(**vllm))
        made.append(VllmGenerator(config, model=model, urls=[server.url for server in servers], key=KEY))
        return made[-1]

    yield generator
    for each in made:
        each.close()


@pytest.fixture
def server() -> Iterator[VllmWireServer]:
    with wire_server() as one:
        yield one


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder that no test changes."""
    return tmp_path_factory.mktemp("weights") / "model"


@pytest.fixture(scope="module")
def version(folder: Path) -> PolicyVersion:
    return save_model(random_model(), folder)


def test_each_candidate_is_a_request_with_its_own_seed(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion
) -> None:
    engine = make(server)
    engine.load(folder, version)
    answers = engine.generate([request_of(3, 9, 2), request_of(5, prompt=(7,))], version)
    assert [[c.tokens for c in group] for group in answers] == [
        [tuple(sample_tokens(seed, 3)) for seed in seeds] for seeds in ((3, 9, 2), (5,))
    ]
    for group in answers:
        for candidate in group:
            expected = [logprob_of(bytes_of(folder), token, at) for at, token in enumerate(candidate.tokens)]
            assert list(candidate.logprobs) == expected
            assert candidate.finish_reason == ("stop" if candidate.tokens[-1] == 1 else "length")
            assert candidate.version == version
    assert {answer[0].finish_reason for answer in answers} == {"stop", "length"}
    asked = sorted(server.generated, key=lambda body: body["sampling_params"]["seed"])
    assert [body["sampling_params"]["seed"] for body in asked] == [2, 3, 5, 9]
    assert {body["cache_salt"] for body in asked} == {version.weights_digest}
    sampling = asked[0]["sampling_params"]
    assert (sampling["temperature"], sampling["max_tokens"], sampling["stop_token_ids"]) == (0.7, 3, [1])
    assert (sampling["top_p"], sampling["top_k"], sampling["repetition_penalty"]) == (1.0, 0, 1.0)
    engine.generate([replace(request_of(1), top_p=0.5)], version)
    assert server.generated[-1]["sampling_params"]["top_p"] == 0.5


def test_what_a_program_asks_of_a_served_policy_reaches_the_server(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion
) -> None:
    engine = make(server)
    engine.load(folder, version)
    seat = RoleBinding(policy="team", prompt_format="compact", max_new_tokens=3)
    models = {"solver": serve_seat(seat, engine, version, temperature=1.0)}
    asked = AgentRequest(model="solver", messages=(Message(role="user", text="A B"),), seed=7)
    with Endpoint(models, lambda _, request: engine.generate([request], version)[0], seed=0) as endpoint:
        calls = [endpoint.ask(each) for each in (asked, replace(asked, temperature=0.5, top_p=0.9, max_tokens=2))]
    sent = [body["sampling_params"] for body in server.generated]
    assert [(each["seed"], each["temperature"], each["top_p"], each["max_tokens"]) for each in sent] == [
        (7, 1.0, 1.0, 3),
        (7, 0.5, 0.9, 2),
    ]
    for call in calls:
        expected = [logprob_of(bytes_of(folder), token, at) for at, token in enumerate(call.tokens)]
        assert (call.version, list(call.logprobs)) == (version, expected)


def test_greedy_candidates_are_equal_and_asked_for_once(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion
) -> None:
    engine = make(server)
    engine.load(folder, version)
    ((*group,),) = engine.generate([request_of(5, 6, 7, temperature=0.0)], version)
    assert len(group) == 3
    assert len(set(group)) == 1
    assert len(server.generated) == 1


def test_nothing_asked_is_nothing_answered(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion
) -> None:
    engine = make(server)
    engine.load(folder, version)
    assert engine.generate([], version) == []
    assert engine.score([(2,)], [()]) == [()]


def test_full_weights_are_reloaded_under_a_pause_and_once(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion
) -> None:
    engine = make(server)
    engine.load(folder, version)
    refreshing = [call for call in server.calls if call not in ("/v1/models", "/health")]
    assert refreshing == [
        "/pause",
        "/update_weight_version",
        "/collective_rpc",
        "/reset_prefix_cache",
        "/update_weight_version",
        "/resume",
    ]
    assert parse_loaded_weights(server.version).weights == version.weights_digest
    make(server).load(folder, version)
    assert server.calls.count("/collective_rpc") == 1, "the server held it already"


def test_a_failed_reload_leaves_a_server_that_names_nothing(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion
) -> None:
    engine = make(server)
    server.has_extension = False
    with pytest.raises(ConfigurationError, match="worker extension of infra/vllm"):
        engine.load(folder, version)
    assert engine.version is None
    assert parse_loaded_weights(server.version).weights is None
    assert not server.paused
    with pytest.raises(StaleEngine):
        engine.generate([request_of(1)], version)


def test_a_cache_that_is_not_cleared_is_a_failure(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion
) -> None:
    server.clears_cache = False
    with pytest.raises(EngineUnavailable, match="prefixes of the old weights"):
        make(server).load(folder, version)
    assert parse_loaded_weights(server.version).weights is None


def test_other_weights_in_the_folder_are_corrupt_and_never_sent(
    server: VllmWireServer, make: Make, version: PolicyVersion, tmp_path: Path
) -> None:
    save_model(random_model(seed=1), tmp_path)
    with pytest.raises(ArtifactCorrupt, match="digest"):
        make(server).load(tmp_path, version)
    assert server.calls == []


def test_a_folder_that_stores_the_tied_head_twice_has_the_same_digest(
    server: VllmWireServer, make: Make, tmp_path: Path
) -> None:
    model = random_model()
    save_model(model, tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    tensors = load_file(tmp_path / "a" / "model.safetensors")
    save_file(
        {**tensors, "lm_head.weight": model.lm_head.weight.detach().clone()}, tmp_path / "b" / "model.safetensors"
    )
    version = PolicyVersion(policy="team", step=0, weights_digest=model_digest(model))
    make(server).load(tmp_path / "b", version)
    assert parse_loaded_weights(server.version).weights == version.weights_digest


def test_the_probe_passes_on_good_weights_and_catches_a_stale_head(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion, tmp_path: Path
) -> None:
    engine, good = make(server), probe_under(bytes_of(folder))
    assert refresh(engine, folder=folder, version=version, probe=good, tolerance=1e-4) == 0.0
    newer = save_model(random_model(seed=2), tmp_path, step=1)
    server.repairs_head = False
    with pytest.raises(LogprobMismatch, match="step 1"):
        refresh(engine, folder=tmp_path, version=newer, probe=probe_under(bytes_of(tmp_path)), tolerance=1e-4)


def test_two_replicas_that_name_one_version_and_differ_are_a_mismatch(
    make: Make, folder: Path, version: PolicyVersion
) -> None:
    with wire_server() as one, wire_server() as other:
        engine = make(one, other)
        engine.load(folder, version)
        assert len(engine.score([PROMPT], [COMPLETION])[0]) == len(COMPLETION)
        other.weights = "spoiled"
        with pytest.raises(LogprobMismatch, match=other.url):
            engine.score([PROMPT], [COMPLETION])


def test_a_server_that_was_started_anew_is_stale_until_it_is_loaded_again(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion
) -> None:
    engine = make(server)
    engine.load(folder, version)
    server.restart()
    with pytest.raises(StaleEngine, match="answered from default"):
        engine.generate([request_of(1)], version)
    with pytest.raises(StaleEngine, match="scored with default"):
        engine.score([PROMPT], [COMPLETION])
    engine.load(folder, version)
    assert engine.generate([request_of(1)], version)[0][0].version == version


def test_adapters_of_two_policies_live_side_by_side(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion, tmp_path: Path
) -> None:
    plan = adapter_of("plan", tmp_path / "plan", version, seed=1)
    tool = adapter_of("tool", tmp_path / "tool", version, seed=2)
    planner, tooler = make(server), make(server)
    planner.load(folder, plan, tmp_path / "plan")
    tooler.load(folder, tool, tmp_path / "tool")
    assert server.calls.count("/collective_rpc") == 1, "they share the base"
    for engine, wanted, name in ((planner, plan, "plan"), (tooler, tool, "tool")):
        weights = f"{bytes_of(folder)}+{bytes_of(tmp_path / name)}"
        refresh(
            engine, folder=folder, version=wanted, probe=probe_under(weights), tolerance=1e-9, adapter=tmp_path / name
        )
        assert engine.generate([request_of(1)], wanted)[0][0].version == wanted


def test_a_new_adapter_is_answered_from_and_the_old_one_is_stale(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion, tmp_path: Path
) -> None:
    old = adapter_of("plan", tmp_path / "old", version, seed=1)
    new = adapter_of("plan", tmp_path / "new", version, seed=3, step=2)
    engine = make(server)
    engine.load(folder, old, tmp_path / "old")
    before = engine.score([PROMPT], [COMPLETION])
    engine.load(folder, new, tmp_path / "new")
    assert engine.score([PROMPT], [COMPLETION]) != before
    with pytest.raises(StaleEngine):
        engine.generate([request_of(1)], old)


def test_a_run_and_two_evaluations_take_no_adapter_from_each_other(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion, tmp_path: Path
) -> None:
    steps = [adapter_of("plan", tmp_path / str(step), version, seed=step, step=step) for step in range(20)]
    shutil.copytree(tmp_path / "0", tmp_path / "copy of 0")
    run, first, third = make(server), make(server), make(server)
    first.load(folder, steps[0], tmp_path / "copy of 0")
    third.load(folder, steps[2], tmp_path / "2")
    for step, plan in enumerate(steps):
        run.load(folder, plan, tmp_path / str(step))
        for engine, wanted in ((run, plan), (first, steps[0]), (third, steps[2])):
            assert engine.generate([request_of(step)], wanted)[0][0].version == wanted
            engine.load(folder, wanted, tmp_path / str(wanted.step))
    assert server.calls.count("/v1/load_lora_adapter") == len(steps), "each digest once, from whichever folder"
    assert server.calls.count("/v1/unload_lora_adapter") == len(steps) - wire.WEIGHTS.MOST_ADAPTERS
    gone = [plan.step for plan in steps if name_adapter(plan) not in server.adapters]
    assert gone == [1, 3, 4, 5], "the ones that were used longest ago"
    assert all(Path(copy).is_dir() for copy, _ in server.adapters.values())


def test_an_adapter_stays_while_its_request_runs_and_is_loaded_again_after(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(wire.WEIGHTS, "MOST_ADAPTERS", 1)
    monkeypatch.setattr(fleet, "_LOOK_AGAIN_SECONDS", 0.0)
    plan, tool = (adapter_of(name, tmp_path / name, version, seed=1) for name in ("plan", "tool"))
    planner, tooler = make(server), make(server)
    planner.load(folder, plan, tmp_path / "plan")
    server.seconds_a_request = 0.5
    asking = threading.Thread(target=planner.generate, args=([request_of(1)], plan))
    asking.start()
    while not planner.replicas.busy:
        time.sleep(0.01)
    time.sleep(0.1)
    tooler.load(folder, tool, tmp_path / "tool")
    assert {*server.adapters} == {name_adapter(plan), name_adapter(tool)}
    asking.join()
    ((copy, _), _) = server.adapters.values()
    tooler.load(folder, adapter_of("tool", tmp_path / "tool", version, seed=2), tmp_path / "tool")
    assert name_adapter(plan) not in server.adapters
    assert not Path(copy).exists()
    with pytest.raises(EngineUnavailable, match="was unloaded for others"):
        planner.generate([request_of(1)], plan)
    assert planner.generate([request_of(1)], plan)[0][0].version == plan


def test_adapter_files_that_are_swapped_on_disk_are_refused_or_never_seen(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion, tmp_path: Path
) -> None:
    plan = adapter_of("plan", tmp_path / "plan", version, seed=1)
    adapter_of("tool", tmp_path / "tool", version, seed=2)
    engine = make(server)
    engine.load(folder, plan, tmp_path / "plan")
    ((served, _),) = server.adapters.values()
    kept = bytes_of(Path(served))
    shutil.copy(tmp_path / "tool" / "adapter_model.safetensors", tmp_path / "plan")
    assert bytes_of(Path(served)) == kept, "the server reads its folder again whenever it likes"
    asked = len(server.calls)
    with pytest.raises(ArtifactCorrupt, match="policy 'plan' at step 1"):
        engine.load(folder, plan, tmp_path / "plan")
    assert len(server.calls) == asked


def test_a_new_base_makes_adapters_be_loaded_again(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion, tmp_path: Path
) -> None:
    engine, plan = make(server), adapter_of("plan", tmp_path / "plan", version, seed=1)
    engine.load(folder, plan, tmp_path / "plan")
    other_base = save_model(random_model(seed=5), tmp_path / "other", step=0)
    moved = adapter_of("plan", tmp_path / "plan", other_base, seed=1)
    engine.load(tmp_path / "other", moved, tmp_path / "plan")
    assert parse_loaded_weights(server.version).adapters == {name_adapter(moved): moved.weights_digest}
    weights = f"{bytes_of(tmp_path / 'other')}+{bytes_of(tmp_path / 'plan')}"
    assert engine.score([PROMPT], [COMPLETION])[0] == probe_under(weights).trainer_logprobs


class FarPath(type(Path())):  # type: ignore[misc]
    """A path on a host that has none of the trainer's folders."""

    def is_dir(self) -> bool:
        return "pytest-" not in str(self) and super().is_dir()


@pytest.fixture
def far(
    server: VllmWireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., VllmGenerator]]:
    """Engines whose server sees no folder of theirs, and fetches files by HTTP from below `tmp_path`."""
    monkeypatch.setattr(wire.WEIGHTS, "Path", FarPath)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    made = []
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as files:
        threading.Thread(target=files.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

        def sign(folder: Path, **changes: Any) -> list[SignedFile]:
            where = f"http://127.0.0.1:{files.server_port}/{folder.relative_to(tmp_path)}"
            signed = [
                SignedFile(path=path, sha256=sha256, num_bytes=num_bytes, url=f"{where}/{path}")
                for path, (sha256, num_bytes) in layout.list_folder(folder).items()
            ]
            return [replace(file, **changes) for file in signed]

        def engine(**changes: Any) -> VllmGenerator:
            config = choose_generation(engine="vllm", vllm=VllmConfig(health_timeout_seconds=5))
            given = partial(sign, **changes) if changes != {"signs": False} else lambda folder: []
            made.append(VllmGenerator(config, model="team", urls=[server.url], key=KEY, sign=given))
            return made[-1]

        yield engine
        for each in made:
            each.close()
        files.shutdown()


def test_a_server_on_another_host_fetches_what_it_lacks_by_digest(
    server: VllmWireServer, far: Callable[..., VllmGenerator], tmp_path: Path
) -> None:
    base = save_model(random_model(), tmp_path / "base")
    plan = adapter_of("plan", tmp_path / "plan", base, seed=1)
    for _ in range(2):
        engine = far()
        engine.load(tmp_path / "base", plan, tmp_path / "plan")
        assert engine.generate([request_of(1)], plan)[0][0].version == plan
    assert server.weights == bytes_of(tmp_path / "base")
    ((copy, adapter),) = server.adapters.values()
    assert adapter == bytes_of(tmp_path / "plan")
    assert not Path(copy).is_relative_to(tmp_path)
    assert server.calls.count("/collective_rpc") == server.calls.count("/v1/load_lora_adapter") == 1


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"signs": False}, ConfigurationError, "see that folder or reach an S3 store"),
        ({"sha256": "0" * 64}, EngineUnavailable, "another digest than promised"),
        ({"url": "http://127.0.0.1:9/x"}, EngineUnavailable, "could not be fetched"),
        ({"path": "../../outside"}, ConfigurationError, "outside of its folder"),
    ],
    ids=lambda changes: next(iter(changes)) if isinstance(changes, dict) else None,
)
def test_files_that_are_not_what_was_promised_are_never_loaded(
    changes: dict[str, Any], error: type[Exception], message: str, server: VllmWireServer,
    far: Callable[..., VllmGenerator], tmp_path: Path,
) -> None:  # fmt: skip
    version = save_model(random_model(), tmp_path / "base")
    with pytest.raises(error, match=message):
        far(**changes).load(tmp_path / "base", version)
    assert server.calls == ["/v1/models"]


def test_a_merged_adapter_is_served_as_full_weights(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion, tmp_path: Path
) -> None:
    plan = adapter_of("plan", tmp_path / "plan", version, seed=1)
    engine = make(server, merge_adapters=True)
    engine.load(folder, plan, tmp_path / "plan")
    assert server.adapters == {}
    assert server.weights not in ("as started", bytes_of(folder))
    assert parse_loaded_weights(server.version).weights == plan.weights_digest
    assert engine.generate([request_of(1)], plan)[0][0].version == plan


def test_a_replica_that_dies_mid_rollout_loses_no_finished_candidate(
    make: Make, folder: Path, version: PolicyVersion
) -> None:
    with wire_server() as one, wire_server() as other:
        engine = make(one, other)
        engine.load(folder, version)
        requests = requests_over([one, other], 10)
        other.fault = lambda path, body: "reset" if len(other.generated) >= 5 else None
        answers = engine.generate(requests, version)
        wanted = [[tuple(sample_tokens(seed, 3)) for seed in request.seeds_K] for request in requests]
        assert [[c.tokens for c in group] for group in answers] == wanted
        finished = [body["sampling_params"]["seed"] for server in (one, other) for body in server.generated]
        assert sorted(finished) == sorted(seed for request in requests for seed in request.seeds_K)
        assert len(other.generated) >= 5
        assert engine.replicas.up == (one.url,)


def test_a_replica_that_hangs_is_given_up_by_its_health(make: Make, folder: Path, version: PolicyVersion) -> None:
    with wire_server() as one, wire_server() as other:
        engine = make(one, other, request_timeout_seconds=15)
        engine.load(folder, version)
        requests = requests_over([one, other], 4)
        other.healthy, other.fault = False, lambda path, body: "hang"
        started = time.monotonic()
        answers = engine.generate(requests, version)
        assert time.monotonic() - started < 10
        assert len(answers) == 8
        assert "not healthy" in engine.replicas.down[other.url]


def test_a_replica_that_comes_back_is_given_the_weights_first(
    make: Make, folder: Path, version: PolicyVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "_LOOK_AGAIN_SECONDS", 0.0)
    with wire_server() as one, wire_server() as other:
        engine = make(one, other)
        engine.load(folder, version)
        other.fault = lambda path, body: "reset"
        engine.generate(requests_over([one, other], 2), version)
        assert engine.replicas.up == (one.url,)
        other.restart()
        other.fault = lambda path, body: None
        other.generated.clear()
        engine.generate(requests_over([one, other], 2), version)
        assert set(engine.replicas.up) == {one.url, other.url}
        assert len(other.generated) == 4
        assert other.weights == bytes_of(folder)


def test_a_replica_that_is_started_elsewhere_is_found_and_loaded(
    folder: Path, version: PolicyVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that is gone is asked no more, whatever it owes."""
    monkeypatch.setattr(fleet, "_LOOK_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(fleet, "_FIND_AGAIN_SECONDS", 0.01)
    config = choose_generation(engine="vllm", vllm=VllmConfig(max_requests_at_once=4, start_timeout_seconds=0.5))
    with wire_server() as one, wire_server() as gone, wire_server() as new:
        found = [one.url, gone.url]
        engine = VllmGenerator(config, model="team", key=KEY, find=lambda: Servers(urls=tuple(found)))
        engine.load(folder, version)
        gone.fault = lambda path, body: found.__setitem__(1, new.url) or "reset"
        for _ in range(2):  # a server that is away is looked for when the next requests begin
            engine.generate(requests_over([one, gone], 2), version)
        assert engine.replicas.up == (one.url, new.url)
        assert not engine.replicas.down
        assert new.weights == bytes_of(folder)
        engine.generate(requests_over([one, new], 2), version)
        assert len(new.generated) >= 4
        found.clear()
        with pytest.raises(EngineUnavailable, match="none is known"):
            engine.load(folder, version)
        starting = Timer(0.1, found.append, [one.url])
        starting.start()
        engine.load(folder, version)
        assert engine.replicas.up == (one.url,), "the only one is waited for while it is started anew"
        engine.close()


def test_nobody_left_names_the_address_the_reason_and_the_command(
    make: Make, folder: Path, version: PolicyVersion
) -> None:
    with wire_server() as server:
        engine = make(server)
        engine.load(folder, version)
        server.fault = lambda path, body: "reset"
    with pytest.raises(EngineUnavailable, match=rf"{server.url}: .*`troupe up --engine vllm`") as raised:
        engine.generate([request_of(1)], version)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    with pytest.raises(EngineUnavailable, match=r"Connection(Refused|Reset)Error"):
        engine.load(folder, version)
    assert engine.version is None


def test_without_servers_it_says_how_to_start_some(make: Make, folder: Path, version: PolicyVersion) -> None:
    with pytest.raises(EngineUnavailable, match=r"'team' is left \(none is known\)\. Start servers with `troupe up"):
        make().load(folder, version)


def test_servers_of_other_models_are_left_alone(make: Make, folder: Path, version: PolicyVersion) -> None:
    with wire_server("other") as foreign, wire_server() as own:
        engine = make(foreign, own)
        engine.load(folder, version)
        assert engine.replicas.up == (own.url,)
        assert foreign.calls == ["/v1/models"]
        with pytest.raises(StaleEngine, match="it serves other"):
            make(foreign).load(folder, version)


def test_a_prompt_that_is_too_long_is_the_users_to_mend(
    server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion
) -> None:
    engine = make(server)
    engine.load(folder, version)
    with pytest.raises(ConfigurationError, match=r"65 tokens.*take 64.*max_new_tokens"):
        engine.generate([request_of(1, prompt=(2,) * 62)], version)
    assert engine.generate([request_of(1, prompt=(2,) * 61)], version)


@pytest.mark.parametrize("spoil", ["abort", "shape", "tokens"])
def test_an_answer_that_is_none_is_a_failure_of_the_replica(
    spoil: str,
    server: VllmWireServer,
    make: Make,
    folder: Path,
    version: PolicyVersion,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = make(server)
    engine.load(folder, version)
    good = wire.VllmWireServer._inference_v1_generate

    def spoil_answer(self: Any, body: Any) -> tuple[int, Any]:
        status, document = good(self, body)
        choice = document["choices"][0]
        if spoil == "abort":
            choice["finish_reason"] = "abort"
        elif spoil == "shape":
            del choice["weight_versions"]
        else:
            choice["token_ids"] = [*choice["token_ids"], 3]
        return status, document

    monkeypatch.setattr(wire.VllmWireServer, "_inference_v1_generate", spoil_answer)
    with pytest.raises(EngineUnavailable):
        engine.generate([request_of(2)], version)


def test_threads_share_an_engine(server: VllmWireServer, make: Make, folder: Path, version: PolicyVersion) -> None:
    engine, answers = make(server), {}
    engine.load(folder, version)

    def play(number: int) -> None:
        answers[number] = engine.generate([request_of(number, number + 100)], version)

    threads = [threading.Thread(target=play, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(6):
        wanted = [tuple(sample_tokens(seed, 3)) for seed in (number, number + 100)]
        assert [c.tokens for c in answers[number][0]] == wanted


def test_merging_adds_the_scaled_product(folder: Path, version: PolicyVersion, tmp_path: Path) -> None:
    from components.generation.vllm.folders import merge_tensors

    adapter_of("plan", tmp_path / "plan", version, seed=1)
    base, update = load_file(folder / "model.safetensors"), load_file(tmp_path / "plan" / "adapter_model.safetensors")
    merged = merge_tensors(folder, tmp_path / "plan")
    layer = "model.layers.1.self_attn.v_proj"
    a = update[f"base_model.model.{layer}.lora_A.weight"]
    b = update[f"base_model.model.{layer}.lora_B.weight"]
    expected = base[f"{layer}.weight"] + 2.0 * (b @ a)
    torch.testing.assert_close(merged[f"{layer}.weight"], expected)
    changed = {name for name in base if not torch.equal(base[name], merged[name])}
    assert changed == {name for name in base if name.rsplit(".", 2)[1] in SHAPE.targets}


def test_a_check_asks_for_the_model_and_gives_no_weights(make: Make) -> None:
    with wire_server() as server:
        here, elsewhere = make(server), make(server, model="another")
        here.check()
        assert here.version is None
        with pytest.raises(StaleEngine, match="it serves team"):
            elsewhere.check()
        assert server.generated == []
        late = make(server)
    with pytest.raises(EngineUnavailable, match="troupe up --engine vllm"):
        late.check()
    with pytest.raises(EngineUnavailable, match="none is known"):
        make().check()
