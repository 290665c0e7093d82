"""What the gateway costs above the engine: CPU of a live call and of a replayed one, and tokens a second of many sessions.

    python -m benchmarks.gateway_cost [--sessions 64] [--calls 40] [--answer-tokens 32]

The model is `tiny` with a chat template and random weights; the agents are in a process of their own and ask over HTTP, each of
them one growing conversation. The sessions are played twice: the second time every answer comes from the journal. Then the same
prompts with the same seeds, in the same order, go straight into the engine. CPU is of this process alone.
"""

import argparse
import asyncio
import json
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import torch

from benchmarks.ended_together import processes_ended_together
from benchmarks.origin import read_origin
from components.artifacts.local import LocalArtifactStore
from components.config import PolicyConfig, TransformersGeneration
from components.config.policies import TinyModelConfig
from components.gateway.calls import StoredCalls
from components.gateway.encoder import ChatEncoder
from components.gateway.gateway import Gateway, ServedPolicy
from components.gateway.server import Entrance, GatewayServer
from components.gateway.sessions import AgentSession
from components.generation.base import Completion, GenerationRequest
from components.generation.local.engine import TransformersGenerator
from components.models.character_tokenizer import END
from components.models.digests import model_digest
from components.models.loading import prepare_model_folder
from components.schema import PolicyVersion

MOST_REPLAY_MS, MOST_LIVE_MS, LEAST_SHARE = 1.5, 2.0, 0.9
ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}\n{{ m['content'] }}" + END + "{% endfor %}"
    "{% if add_generation_prompt %}assistant\n{% endif %}"
)


@dataclass(slots=True)
class Watched:
    """An engine that is watched: what it was asked, and the CPU that it took."""

    engine: TransformersGenerator
    version: PolicyVersion
    seconds: float = 0.0
    asked: list[GenerationRequest] = field(default_factory=list)
    num_tokens: int = 0

    def sample(self, policy: str, request: GenerationRequest) -> Completion:
        started = time.thread_time()
        ((completion,),) = self.engine.generate([request], self.version)
        self.seconds += time.thread_time() - started
        self.asked.append(request)
        self.num_tokens += len(completion.tokens)
        return completion


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What some calls took."""

    num_calls: int
    wall_seconds: float
    cpu_seconds: float
    engine_seconds: float

    @property
    def above_engine_ms(self) -> float:
        return 1000 * (self.cpu_seconds - self.engine_seconds) / self.num_calls


def load_engine(folder: Path, *, num_positions: int) -> tuple[TransformersGenerator, PolicyVersion]:
    """`tiny` with room for long conversations and a chat template."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    policy = PolicyConfig(tiny=TinyModelConfig(max_position_embeddings=num_positions))
    prepare_model_folder(policy, alphabet=ALPHABET, seed=0, into=folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    version = PolicyVersion(
        policy="team", step=0, weights_digest=model_digest(AutoModelForCausalLM.from_pretrained(folder, dtype="auto"))
    )
    engine = TransformersGenerator(TransformersGeneration())
    engine.load(folder, version)
    return engine, version


def play_agents(url: str, num_sessions: int, num_calls: int) -> None:
    """Play the sessions, all at once, each of them one growing conversation."""
    asyncio.run(_play_agents(url, num_sessions, num_calls))


async def _play_agents(url: str, num_sessions: int, num_calls: int) -> None:
    import aiohttp

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(None), connector=aiohttp.TCPConnector(limit=0)) as client:

        async def play(number: int) -> None:
            rng = Random(number)
            messages: list[Any] = [{"role": "system", "content": f"You are agent {number}. Be brief."}]
            for turn in range(num_calls):
                what = "".join(rng.choices("abcdefgh ", k=24))
                messages.append({"role": "user", "content": f"{turn}: {what}"})
                form = {"model": "main", "messages": messages}
                headers = {"Authorization": f"Bearer {number}"}
                async with client.post(f"{url}/v1/chat/completions", json=form, headers=headers) as response:
                    answer = await response.json()
                    assert response.status == 200, answer
                messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})

        await asyncio.gather(*map(play, range(num_sessions)))


def play_sessions(make_gateway: Callable[[], Gateway], store: LocalArtifactStore, watched: Watched, *, agents: Any, size: tuple[int, int]) -> Cost:
    """What it takes to play all sessions once."""
    sessions = {
        str(number): AgentSession(name=f"s{number}", journal=StoredCalls(store, f"s{number}"))
        for number in range(size[0])
    }
    before = watched.seconds
    with GatewayServer(make_gateway()) as server:
        url = server.listen("127.0.0.1", 0, Entrance(find_session=sessions.get))
        started, cpu = time.perf_counter(), time.process_time()
        agents.submit(play_agents, url, *size).result()
        cost = Cost(
            num_calls=size[0] * size[1],
            wall_seconds=time.perf_counter() - started,
            cpu_seconds=time.process_time() - cpu,
            engine_seconds=watched.seconds - before,
        )
    if server.failure is not None:
        raise server.failure
    return cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--answer-tokens", type=int, default=32)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    size = (asked.sessions, asked.calls)
    with tempfile.TemporaryDirectory(prefix="troupe-benchmark-") as home, processes_ended_together(1) as agents:
        engine, version = load_engine(Path(home) / "model", num_positions=asked.calls * (asked.answer_tokens + 64) + 128)
        watched = Watched(engine, version)
        served = ServedPolicy(
            policy="team",
            version=version,
            encoder=ChatEncoder(engine.tokenizer),
            show_tokens=engine.tokenizer.decode_with_specials,
            max_new_tokens=asked.answer_tokens,
        )
        store = LocalArtifactStore(Path(home) / "store")
        make_gateway = lambda: Gateway(models={"main": served}, sample=watched.sample, seed=0)
        live = play_sessions(make_gateway, store, watched, agents=agents, size=size)
        num_sampled = watched.num_tokens
        replayed = play_sessions(make_gateway, store, watched, agents=agents, size=size)
        assert watched.num_tokens == num_sampled
        requests = list(watched.asked)
        watched.seconds = 0
        started, cpu = time.perf_counter(), time.process_time()
        for request in requests:
            watched.sample("team", request)
        straight = Cost(num_calls=len(requests), wall_seconds=time.perf_counter() - started, cpu_seconds=time.process_time() - cpu, engine_seconds=watched.seconds)
    print(read_origin())
    print(live, replayed, straight, sep="\n")
    print("live above engine", live.above_engine_ms, "ms; replay", replayed.above_engine_ms, "ms; share wall", straight.wall_seconds / live.wall_seconds, "share cpu", straight.cpu_seconds / live.cpu_seconds, "tokens/s cpu", num_sampled / live.cpu_seconds)


if __name__ == "__main__":
    main()
