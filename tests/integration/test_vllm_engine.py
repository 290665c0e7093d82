"""The real thing: two vLLM servers on the CPU, refreshed, compared with the in-process engine, killed and stopped.

The tests share the servers and run in order: the last ones kill and stop them.
"""

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from typing import Any

import pytest

from components.config import TransformersGeneration
from components.errors import EngineUnavailable
from components.generation.base import GenerationRequest, before_stop
from components.generation.local.engine import TransformersGenerator
from components.generation.refresh import refresh
from components.generation.vllm.engine import VllmGenerator
from components.generation.vllm.launch import ServedModel
from components.generation.vllm.transport import Transport, encode_json
from infra.services.process import read_record
from infra.services.secrets import ensure_secret
from infra.services.vllm_server import VllmService, key_file
from infra.services.vllm_stack import down_vllm, start_servers, vllm_addresses
from tests.exported_runs import ExportedRun, export_run
from tests.integration.vllm_servers import config_of, needs_vllm, processes_of, save_adapter, save_model
from troupe.exporting.export import export

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), needs_vllm]
TOLERANCE = 1e-4
LONG_PROMPT = (2, 5, 3, 9, 4) * 20
"""Several blocks of the prefix cache."""


@dataclass(frozen=True)
class Running:
    """Two servers of one model with room for two adapters, and what a test needs to speak to them.

    They start from the folder to which `exported` was exported, and its adapter sits on the same weights.
    """

    home: Path
    services: list[VllmService]
    engine: VllmGenerator
    reference: TransformersGenerator
    exported: ExportedRun


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("vllm-home")
    exported = export_run(home / "run")
    for place, is_merged in (("out", False), ("merged", True)):
        order = {"policy": None, "is_merged": is_merged, "store_uri": exported.store.uri}
        export("team@0", str(home / place), **order, progress=lambda done, total: None)
    config = config_of()
    model = ServedModel(name="team", folder=home / "out" / "tool", num_adapters=2, max_rank=4)
    services = [VllmService(index, model, config) for index in range(2)]
    try:
        addresses = start_servers(home, [services])
        engine = VllmGenerator(config, model="team", urls=list(addresses.values()), key=ensure_secret(key_file(home)))
        yield Running(home, services, engine, TransformersGenerator(TransformersGeneration()), exported)
        engine.close()
    finally:
        down_vllm(home)
    assert processes_of(home) == []


def requests_of(num_prompts: int, group_size: int, *, temperature: float, length: int = 12) -> list[GenerationRequest]:
    return [
        GenerationRequest(
            prompt_tokens=(2 + number % 9, 2 + number // 9 % 9, *LONG_PROMPT),
            seeds_K=tuple(range(1000 * number, 1000 * number + group_size)),
            max_new_tokens=length,
            temperature=temperature,
        )
        for number in range(num_prompts)
    ]


def largest_difference(ours: list[tuple[float, ...]], theirs: list[tuple[float, ...]]) -> float:
    return max(abs(a - b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True))


def post(home: Path, url: str, path: str, body: Any) -> Any:
    """What a server answers to a POST."""

    async def call() -> Any:
        transport = Transport(ensure_secret(key_file(home)))
        try:
            return await transport.call(url, path, encode_json(body), timeout_seconds=60)
        finally:
            await transport.close()

    return asyncio.run(call())


TEXTS = (("AB\nCD ", "FEED"), ("G", "A"), ("GAG A\n" * 9, "BCDEFG\n "))


def read_served_scores(call: Callable[[str, dict[str, Any]], Any], model: str) -> list[tuple[float, ...]]:
    """The log-probabilities that a server gives to texts, which its own tokenizer reads."""
    found = []
    for prompt, answer in TEXTS:
        asked = {"model": model, "prompt": prompt + answer, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
        (choice,) = call("/v1/completions", asked)["choices"]
        tokens = choice["prompt_logprobs"]
        assert len(tokens) == len(prompt + answer), "one token a character"
        found.append(tuple(next(iter(token.values()))["logprob"] for token in tokens[len(prompt) :]))
    return found


def test_exported_folders_are_served_as_they_lie(running: Running) -> None:
    """First, because the server holds what it started from."""
    exported, url = running.exported, vllm_addresses(running.home)["vllm-0"]

    def call(path: str, body: dict[str, Any]) -> Any:
        return post(running.home, url, path, body)

    whole, adapted = (exported.scores(policy, 0, TEXTS) for policy in ("tool", "plan"))
    assert largest_difference(whole, adapted) > 0.05
    assert largest_difference(whole, read_served_scores(call, "team")) <= TOLERANCE
    call("/v1/load_lora_adapter", {"lora_name": "plan", "lora_path": str(running.home / "out" / "plan")})
    assert largest_difference(adapted, read_served_scores(call, "plan")) <= TOLERANCE
    call("/v1/unload_lora_adapter", {"lora_name": "plan"})
    call("/collective_rpc", {"method": "troupe_reload", "args": [str(running.home / "merged" / "plan")]})
    call("/reset_prefix_cache", {})
    assert largest_difference(adapted, read_served_scores(call, "team")) <= TOLERANCE


@pytest.mark.parametrize("kind", ["full", "adapter"])
def test_tokens_and_log_probabilities_are_those_of_the_in_process_engine(
    kind: str, running: Running, tmp_path: Path
) -> None:
    version, _ = save_model(0, tmp_path / "base")
    adapter = tmp_path / "adapter" if kind == "adapter" else None
    if adapter:
        version, _ = save_adapter(1, adapter, policy="plan")
    for engine in (running.engine, running.reference):
        engine.load(tmp_path / "base", version, adapter)
    greedy = requests_of(6, 2, temperature=0.0, length=24)
    ours, theirs = running.engine.generate(greedy, version), running.reference.generate(greedy, version)
    assert [[c.tokens for c in group] for group in ours] == [[c.tokens for c in group] for group in theirs]
    assert largest_difference([g[0].logprobs for g in ours], [g[0].logprobs for g in theirs]) <= TOLERANCE

    sampled = requests_of(6, 4, temperature=1.0)
    answers = running.engine.generate(sampled, version)
    prompts = [request.prompt_tokens for request in sampled for _ in request.seeds_K]
    flat = [candidate for group in answers for candidate in group]
    scored = running.reference.score(prompts, [candidate.tokens for candidate in flat])
    assert largest_difference([candidate.logprobs for candidate in flat], scored) <= TOLERANCE
    assert len({candidate.tokens for candidate in flat}) > 6
    again = running.engine.generate(sampled, version)
    assert again == answers, "the same seeds gave other tokens"


def test_stop_strings_cut_what_is_sampled_and_a_continued_answer_is_scored_alike(
    running: Running, tmp_path: Path
) -> None:
    version, _ = save_model(0, tmp_path)
    for engine in (running.engine, running.reference):
        engine.load(tmp_path, version)
    free = requests_of(3, 4, temperature=1.0, length=24)
    long = [candidate for group in running.engine.generate(free, version) for candidate in group]
    stopping = [replace(request, stop=("AB", "G\n", "E")) for request in free]
    found = [candidate for group in running.engine.generate(stopping, version) for candidate in group]
    decode = running.engine.tokenizer.decode
    for whole, cut in zip(long, found, strict=True):
        assert whole.tokens[: len(cut.tokens)] == cut.tokens
        texts = [decode(whole.tokens[:number]) for number in range(1, len(whole.tokens) + 1)]
        ends = [number for number, text in enumerate(texts, 1) if before_stop(text, stopping[0].stop) != text]
        assert len(cut.tokens) == min(ends, default=len(whole.tokens))
        assert cut.finish_reason == ("stop" if ends else whole.finish_reason)
    assert any(len(cut.tokens) < len(whole.tokens) for whole, cut in zip(long, found, strict=True))

    many = requests_of(16, 8, temperature=1.0, length=24)
    continued = [replace(request, max_thinking_tokens=15) for request in many]
    answers = running.engine.generate(continued, version)
    assert max(len(candidate.tokens) for group in answers for candidate in group) > 15
    prompts = [request.prompt_tokens for request in continued for _ in request.seeds_K]
    flat = [candidate for group in answers for candidate in group]
    scored = running.reference.score(prompts, [candidate.tokens for candidate in flat])
    assert largest_difference([candidate.logprobs for candidate in flat], scored) <= TOLERANCE


def test_tokens_are_drawn_from_the_distribution_that_the_log_probabilities_name(
    running: Running, tmp_path: Path
) -> None:
    version, _ = save_model(0, tmp_path)
    running.engine.load(tmp_path, version)
    num_draws = 600
    request = GenerationRequest(
        prompt_tokens=LONG_PROMPT, seeds_K=tuple(range(num_draws)), max_new_tokens=1, temperature=0.6
    )
    ((*draws,),) = running.engine.generate([request], version)
    named = {candidate.tokens[0]: exp(candidate.logprobs[0]) for candidate in draws}
    counts = Counter(candidate.tokens[0] for candidate in draws)
    assert sum(named.values()) == pytest.approx(1.0, abs=0.02)
    for token, probability in named.items():
        deviation = (probability * (1 - probability) / num_draws) ** 0.5
        assert abs(counts[token] / num_draws - probability) < 4 * deviation + 1 / num_draws


def test_full_weights_are_refreshed_back_and_forth_with_their_tied_head(running: Running, tmp_path: Path) -> None:
    folders = [save_model(seed, tmp_path / str(seed), step=seed) for seed in (0, 1)]
    seen = []
    for seed in (0, 1, 0):
        version, probe = folders[seed]
        difference = refresh(
            running.engine, folder=tmp_path / str(seed), version=version, probe=probe, tolerance=TOLERANCE
        )
        assert difference <= TOLERANCE
        seen.append(running.engine.score([LONG_PROMPT], [(3, 4, 5)])[0])
    assert seen[0] == seen[2]
    assert largest_difference([seen[0]], [seen[1]]) > 0.05


def test_the_probe_catches_the_stale_head_that_a_plain_reload_leaves(running: Running, tmp_path: Path) -> None:
    """What the worker extension is for: without it the server samples from a mixture of two models."""
    old, probe = save_model(0, tmp_path / "old")
    refresh(running.engine, folder=tmp_path / "old", version=old, probe=probe, tolerance=TOLERANCE)
    new, new_probe = save_model(1, tmp_path / "new", step=1)
    plain = {"method": "reload_weights", "kwargs": {"weights_path": str(tmp_path / "new")}}
    sabotaged = set(running.engine.replicas.up)
    for url in sabotaged:
        for path, body in (("/collective_rpc", plain), ("/reset_prefix_cache", {})):
            post(running.home, url, path, body)
    (found,) = running.engine.score([new_probe.prompt_tokens], [new_probe.completion_tokens])
    assert largest_difference([found], [new_probe.trainer_logprobs]) > 100 * TOLERANCE
    running.engine.load(tmp_path / "new", new)
    while not sabotaged <= set(
        running.engine.replicas.up
    ):  # one that a busy machine kept from answering is stale still
        time.sleep(0.2)
        running.engine.load(tmp_path / "new", new)
    refresh(running.engine, folder=tmp_path / "new", version=new, probe=new_probe, tolerance=TOLERANCE)


def test_adapters_are_refreshed_by_name_side_by_side(running: Running, tmp_path: Path) -> None:
    save_model(0, tmp_path / "base")
    key = ensure_secret(key_file(running.home))
    urls = list(vllm_addresses(running.home).values())
    tool, tool_probe = save_adapter(7, tmp_path / "tool", policy="tool")
    base = tmp_path / "base"
    with closing(VllmGenerator(config_of(), model="team", urls=urls, key=key)) as other_engine:
        refresh(
            other_engine, folder=base, version=tool, probe=tool_probe, tolerance=TOLERANCE, adapter=tmp_path / "tool"
        )
        seen = []
        for seed in (1, 2, 3, 1):
            adapter = tmp_path / f"plan-{seed}-{len(seen)}"
            plan, probe = save_adapter(seed, adapter, policy="plan")
            refresh(running.engine, folder=base, version=plan, probe=probe, tolerance=TOLERANCE, adapter=adapter)
            seen.append(running.engine.generate(requests_of(2, 1, temperature=0.0), plan)[0][0].logprobs)
            refresh(
                other_engine,
                folder=base,
                version=tool,
                probe=tool_probe,
                tolerance=TOLERANCE,
                adapter=tmp_path / "tool",
            )
        assert seen[0] == seen[3]
        assert len(set(seen)) == 3


def test_a_merged_adapter_answers_as_the_adapter_does(running: Running, tmp_path: Path) -> None:
    save_model(0, tmp_path / "base")
    plan, probe = save_adapter(1, tmp_path / "plan", policy="plan")
    urls = list(vllm_addresses(running.home).values())
    key = ensure_secret(key_file(running.home))
    merged = VllmGenerator(config_of(merge_adapters=True), model="team", urls=urls, key=key)
    difference = refresh(
        merged,
        folder=tmp_path / "base",
        version=plan,
        probe=probe,
        tolerance=TOLERANCE,
        adapter=tmp_path / "plan",
    )
    assert difference <= TOLERANCE
    merged.close()


def test_a_replica_killed_mid_rollout_loses_no_candidate(running: Running, tmp_path: Path) -> None:
    version, probe = save_model(0, tmp_path)
    running.engine.load(tmp_path, version)
    requests = requests_of(40, 8, temperature=1.0, length=32)
    undisturbed = running.engine.generate(requests, version)
    victim = read_record(running.home, "vllm-1")
    assert victim is not None
    victim_url = vllm_addresses(running.home)["vllm-1"]

    def kill_when_busy() -> None:
        while victim_url not in running.engine.replicas.busy:
            time.sleep(0.001)
        time.sleep(0.3)
        os.kill(victim.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_when_busy)
    killer.start()
    answers = running.engine.generate(requests, version)
    killer.join()
    assert answers == undisturbed
    assert running.engine.replicas.up == (vllm_addresses(running.home)["vllm-0"],)
    refresh(running.engine, folder=tmp_path, version=version, probe=probe, tolerance=TOLERANCE)


def test_a_replica_that_is_started_again_gets_the_weights_and_the_others_stay(running: Running, tmp_path: Path) -> None:
    version, probe = save_model(1, tmp_path, step=4)
    refresh(running.engine, folder=tmp_path, version=version, probe=probe, tolerance=TOLERANCE)
    before = read_record(running.home, "vllm-0")
    start_servers(running.home, [running.services])
    assert read_record(running.home, "vllm-0") == before
    time.sleep(5.1)  # the engine looks again after five seconds
    running.engine.generate(requests_of(20, 4, temperature=1.0), version)
    assert set(running.engine.replicas.up) == set(vllm_addresses(running.home).values())
    refresh(running.engine, folder=tmp_path, version=version, probe=probe, tolerance=TOLERANCE)


def test_stopping_ends_every_process(running: Running, tmp_path: Path) -> None:
    version, _ = save_model(0, tmp_path)
    assert len(processes_of(running.home)) >= 6
    assert down_vllm(running.home) == ["vllm-0", "vllm-1"]
    assert processes_of(running.home) == []
    assert vllm_addresses(running.home) == {}
    with pytest.raises(EngineUnavailable, match="troupe up --engine vllm"):
        running.engine.load(tmp_path, version)
