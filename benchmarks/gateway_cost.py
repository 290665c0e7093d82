"""What the gateway costs above the engine: CPU of a live call and of a replayed one, and tokens a second of many sessions.

    python -m benchmarks.gateway_cost [--modes exact waves] [--sessions 64] [--calls 40] [--answer-tokens 32]

The model is `tiny` with a chat template and random weights; the agents are in a process of their own and ask over HTTP, each of
them one growing conversation. The sessions are played twice: the second time every answer comes from the journal. Then the same
prompts with the same seeds, in the same order, go straight into the engine. CPU is of this process alone.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch

from benchmarks.ended_together import processes_ended_together
from benchmarks.origin import read_origin
from components.artifacts.local import LocalArtifactStore
from components.config import PolicyConfig, TransformersGeneration
from components.config.policies import TinyModelConfig
from components.gateway.asking import CALLS_AT_ONCE, CallMode, ask_engine, open_sampling
from components.gateway.calls import StoredCalls
from components.gateway.encoder import ChatEncoder
from components.gateway.gateway import Gateway, ServedPolicy
from components.gateway.server import Entrance, GatewayServer, Seat
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is played."""

    num_sessions: int
    num_calls: int
    answer_tokens: int


@dataclass(slots=True)
class Watched:
    """An engine that is watched: what it was asked, and the CPU that it took."""

    engine: TransformersGenerator
    version: PolicyVersion
    seconds: float = 0.0
    waves: list[Sequence[GenerationRequest]] = field(default_factory=list)
    num_tokens: int = 0

    def ask(self, policy: str, requests: Sequence[GenerationRequest]) -> list[tuple[Completion, ...]]:
        started = time.thread_time()
        found = ask_engine(self.engine, requests, self.version)
        self.seconds += time.thread_time() - started
        self.waves.append(requests)
        self.num_tokens += sum(len(each.tokens) for (each,) in found)
        return found


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


def play_agents(url: str, size: Size) -> float:
    """Play the sessions, all at once, each of them one growing conversation. The seconds that it takes."""
    started = time.perf_counter()
    asyncio.run(_play_agents(url, size))
    return time.perf_counter() - started


async def _play_agents(url: str, size: Size) -> None:
    import aiohttp

    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(None), connector=aiohttp.TCPConnector(limit=0)
    ) as client:

        async def play(number: int) -> None:
            rng = Random(number)
            messages: list[Any] = [{"role": "system", "content": f"You are agent {number}. Be brief."}]
            for turn in range(size.num_calls):
                what = "".join(rng.choices("abcdefgh ", k=24))
                messages.append({"role": "user", "content": f"{turn}: {what}"})
                form = {"model": "main", "messages": messages}
                headers = {"Authorization": f"Bearer {number}"}
                async with client.post(f"{url}/v1/chat/completions", json=form, headers=headers) as response:
                    answer = await response.json()
                    assert response.status == 200, answer
                messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})

        await asyncio.gather(*map(play, range(size.num_sessions)))


def play_sessions(gateway: Gateway, store: LocalArtifactStore, watched: Watched, agents: Any, size: Size) -> Cost:
    """What it takes to play all sessions once. The CPU is that of this process."""
    seats = {
        str(number): Seat(AgentSession(name=f"s{number}", journal=StoredCalls(store, f"s{number}")))
        for number in range(size.num_sessions)
    }
    engine = watched.seconds
    with GatewayServer(gateway) as server:
        url = server.listen("127.0.0.1", 0, Entrance(find_seat=seats.get))
        cpu = time.process_time()
        wall_seconds = agents.submit(play_agents, url, size).result()
        cost = Cost(
            num_calls=size.num_sessions * size.num_calls,
            wall_seconds=wall_seconds,
            cpu_seconds=time.process_time() - cpu,
            engine_seconds=watched.seconds - engine,
        )
    if server.failure is not None:
        raise server.failure
    return cost


def ask_straight(watched: Watched, waves: Sequence[Sequence[GenerationRequest]]) -> Cost:
    """What the same prompts take without a gateway, in the same waves, by an engine that has read nothing."""
    engine, started, cpu = watched.seconds, time.perf_counter(), time.process_time()
    for requests in waves:
        watched.ask("team", requests)
    return Cost(
        num_calls=sum(map(len, waves)),
        wall_seconds=time.perf_counter() - started,
        cpu_seconds=time.process_time() - cpu,
        engine_seconds=watched.seconds - engine,
    )


def measure(mode: CallMode, home: Path, size: Size, agents: Any) -> bool:
    """Print one row for a mode; whether it is within the bounds."""
    engine, version = load_engine(home / "model", num_positions=size.num_calls * (size.answer_tokens + 64) + 128)
    served = ServedPolicy(
        policy="team",
        version=version,
        encoder=ChatEncoder(engine.tokenizer),
        show_tokens=engine.tokenizer.decode_with_specials,
        max_new_tokens=size.answer_tokens,
    )
    store, watched = LocalArtifactStore(home / "store"), Watched(engine, version)

    def open_gateway() -> Gateway:
        sample = open_sampling(watched.ask, mode)
        return Gateway(models={"main": served}, sample=sample, seed=0, num_at_once=CALLS_AT_ONCE[mode])

    live = play_sessions(open_gateway(), store, watched, agents, size)
    num_tokens = watched.num_tokens
    replayed = play_sessions(open_gateway(), store, watched, agents, size)
    assert watched.num_tokens == num_tokens, "an answer was sampled twice"
    waves, watched.waves = watched.waves, []
    engine.forget_prefixes()
    straight = ask_straight(watched, waves)
    share = straight.cpu_seconds / live.cpu_seconds
    print(
        f"| {mode} | {num_tokens / live.cpu_seconds:.0f} | {num_tokens / straight.cpu_seconds:.0f} | {share:.2f} | "
        f"{num_tokens / live.wall_seconds:.0f} | {num_tokens / straight.wall_seconds:.0f} | "
        f"{live.above_engine_ms:.2f} | {replayed.above_engine_ms:.2f} | {live.num_calls / len(waves):.1f} |",
        flush=True,
    )
    return share >= LEAST_SHARE and live.above_engine_ms <= MOST_LIVE_MS and replayed.above_engine_ms <= MOST_REPLAY_MS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", nargs="+", default=["exact", "waves"], choices=["exact", "waves"])
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--answer-tokens", type=int, default=32)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    size = Size(num_sessions=asked.sessions, num_calls=asked.calls, answer_tokens=asked.answer_tokens)
    origin = read_origin()
    print(f"{size.num_sessions} sessions x {size.num_calls} calls; {origin['processor']}; {origin['commit']}")
    print("| mode | tokens/CPU s | without gateway | share | tokens/s | without gateway | live, ms above the engine "
          "| replayed, ms | calls a wave |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    held = []
    with processes_ended_together(1) as agents:
        for mode in asked.modes:
            with tempfile.TemporaryDirectory(prefix="troupe-benchmark-") as home:
                held.append(measure(mode, Path(home), size, agents))
    print(
        f"required: at least {LEAST_SHARE} of the tokens, live at most {MOST_LIVE_MS} ms, "
        f"replayed at most {MOST_REPLAY_MS} ms: {'held' if all(held) else 'MISSED'}"
    )
    raise SystemExit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
