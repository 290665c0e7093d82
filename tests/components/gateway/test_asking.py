"""How requests reach an engine: waves of what waits, and rows that are the engine's to the bit when one is asked at a time."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from components.config import TransformersGeneration
from components.errors import ConfigurationError, EngineUnavailable
from components.gateway.asking import Waves, ask_engine, open_sampling
from components.gateway.calls import StoredCalls
from components.gateway.door import ProgramDoor
from components.gateway.encoder import ChatEncoder
from components.gateway.gateway import Gateway, ServedPolicy
from components.gateway.play import ProgramPlay
from components.gateway.programs import ProgramRunner
from components.generation.base import Completion, GenerationRequest
from components.generation.local.engine import TransformersGenerator
from components.models.digests import model_digest
from components.models.model_folder import write_model_folder
from components.schema import PolicyVersion
from tests.components.gateway.talks import make_chat_tokenizer
from tests.components.gateway.test_play import OFFICE, RUBRIC, RULES, make_starts
from tests.components.generation.tiny_models import random_model

NUM_EPISODES, NUM_CALLS = 10, 20
VERSION = PolicyVersion(policy="team", step=0, weights_digest="d")


class Counted:
    """An engine that says how many requests it got at once, and refuses the prompt (0,)."""

    def __init__(self) -> None:
        self.waves: list[int] = []
        self.may_answer = threading.Event()

    def ask(self, policy: str, requests: Sequence[GenerationRequest]) -> list[tuple[Completion, ...]]:
        self.waves.append(len(requests))
        assert self.may_answer.wait(20)
        if any(request.prompt_tokens == (0,) for request in requests):
            raise ConfigurationError("too long")
        return [
            (Completion(tokens=each.prompt_tokens, logprobs=(0.0,), finish_reason="stop", version=VERSION),)
            for each in requests
        ]


def make_request(token: int) -> GenerationRequest:
    return GenerationRequest(prompt_tokens=(token,), seeds_K=(1,), max_new_tokens=1, temperature=1.0)


def test_what_waits_is_asked_together_and_who_is_refused_is_refused_alone() -> None:
    engine = Counted()
    waves = Waves(engine.ask)

    def wait_for(reached: Any) -> None:
        deadline = time.monotonic() + 20
        while not reached() and time.monotonic() < deadline:
            time.sleep(0.005)

    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(waves, "team", make_request(9))
        wait_for(lambda: engine.waves)
        others = [threads.submit(waves, "team", make_request(token)) for token in range(4)]
        second = threads.submit(waves, "second", make_request(7))
        wait_for(lambda: sorted(map(len, waves._waiting.values())) == [1, 4])
        engine.may_answer.set()
        found = [each.exception() or each.result()[0].tokens for each in (first, *others, second)]
    assert isinstance(found[1], ConfigurationError)
    assert [found[0], *found[2:]] == [(9,), (1,), (2,), (3,), (7,)]
    assert sorted(engine.waves) == [1, 1, 1, 1, 1, 1, 4], "the first, another policy's, four, and each of them alone"


def open_engine(folder: Path) -> tuple[TransformersGenerator, PolicyVersion]:
    if not folder.exists():
        tokenizer = make_chat_tokenizer()
        model = random_model(vocab_size=len(tokenizer))
        model.config.max_position_embeddings = 4096
        write_model_folder(model, tokenizer, folder)
    engine = TransformersGenerator(TransformersGeneration())
    version = replace(VERSION, weights_digest=model_digest(random_model(vocab_size=len(make_chat_tokenizer()))))
    engine.load(folder, version)
    return engine, version


class Recorded:
    """A real engine that counts what it reads and what it returns, and fails after some calls."""

    def __init__(self, folder: Path, *, fails_after: int = 10**6) -> None:
        self.engine, self.version = open_engine(folder)
        self.fails_after, self.num_read = fails_after, 0
        self.returned: dict[tuple[int, ...], GenerationRequest] = {}
        self.engine._model.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, module: Any, args: Any, kwargs: Any) -> None:
        self.num_read += kwargs["input_ids"].numel()

    def ask(self, policy: str, requests: Sequence[GenerationRequest]) -> list[tuple[Completion, ...]]:
        if len(self.returned) >= self.fails_after:
            raise EngineUnavailable("killed")
        found = ask_engine(self.engine, requests, self.version)
        for request, (completion,) in zip(requests, found, strict=True):
            self.returned[request.prompt_tokens + completion.tokens] = request
        return found

    def play(self, store: LocalArtifactStore, runner: ProgramRunner) -> Any:
        tokenizer = self.engine.tokenizer
        served = ServedPolicy(
            policy="team",
            version=self.version,
            encoder=ChatEncoder(tokenizer),
            show_tokens=tokenizer.decode_with_specials,
            max_new_tokens=6,
        )
        programs = ProgramPlay(
            open_gateway=lambda rules: Gateway(
                models={"clerk": served}, sample=open_sampling(self.ask, "exact"), seed=rules.seed
            ),
            journal=lambda name: StoredCalls(store, f"runs/r/{name}"),
            runner=runner,
            decode_answer=lambda role, tokens: tokenizer.decode(tokens),
        )
        starts = make_starts(NUM_EPISODES, function="talk", num_calls=NUM_CALLS, seconds=300.0)
        rules = replace(RULES, max_turns=NUM_CALLS)
        return programs.play(starts, rules, family=OFFICE, rubric=RUBRIC, tools=OFFICE.referee().tools)


def test_every_row_of_200_calls_is_answered_again_to_the_bit(tmp_path: Path) -> None:
    """The first life ends after 90 calls; the second one's engine has read nothing. Then each row is asked for again, alone, in
    another order, by an engine that forgets all before each call."""
    store, folder = LocalArtifactStore(tmp_path / "store"), tmp_path / "model"
    first = Recorded(folder, fails_after=90)
    with ProgramRunner(tmp_path / "programs", ProgramDoor(num_at_once=1)) as runner:
        with pytest.raises(EngineUnavailable):
            first.play(store, runner)
        second = Recorded(folder)
        episodes = second.play(store, runner)
    rows = [(node.prompt_tokens, node.candidates[0]) for episode in episodes for node in episode.nodes]
    returned = {**first.returned, **second.returned}
    assert len(rows) == len(returned) == NUM_EPISODES * NUM_CALLS, "none was sampled twice"
    assert {prompt + row.tokens for prompt, row in rows} == returned.keys(), "no id that the engine did not return"
    alone = Recorded(folder)
    for prompt, row in Random(0).sample(rows, len(rows)):
        alone.engine.forget_prefixes()
        ((again,),) = alone.ask("team", [returned[prompt + row.tokens]])
        assert (again.tokens, again.logprobs) == (row.tokens, row.sampler_logprobs)
    plain = alone.engine.score([prompt for prompt, _ in rows[::7]], [row.tokens for _, row in rows[::7]])
    for (_, row), scored in zip(rows[::7], plain, strict=True):
        assert row.sampler_logprobs == pytest.approx(scored, abs=1e-5)
    assert first.num_read + second.num_read < alone.num_read / 2, "a history is not paid for with each call"
