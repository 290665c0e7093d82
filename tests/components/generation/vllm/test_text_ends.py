"""Stop strings and thinking budgets over the wire: answers are continued as far as they may, and cut where they end."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from components.config import VllmConfig
from components.errors import ConfigurationError
from components.generation.base import Completion, GenerationRequest
from components.generation.vllm.engine import VllmGenerator
from components.models.digests import model_digest
from components.models.model_folder import write_model_folder
from components.models.tokenizer import HuggingFaceTokenizer
from components.schema import PolicyVersion
from tests.components.generation.tiny_models import make_tagged_tokenizer, random_model
from tests.components.generation.vllm import wire_server as wire
from tests.components.generation.vllm.wire_server import KEY, VllmWireServer, wire_server
from tests.sections import choose_generation

TOKENIZER = HuggingFaceTokenizer(make_tagged_tokenizer())
PROMPT = (5, 6, 7)


def ids(text: str) -> tuple[int, ...]:
    return tuple(make_tagged_tokenizer().encode(text, add_special_tokens=False))


class Speaking:
    """A server whose model says `text`, whatever the seed, and stops as vLLM does: at the strings in its own output."""

    def __init__(self, server: VllmWireServer, text: str) -> None:
        self.tokens = ids(text)
        self._server = server

    def __call__(self, handler: Any, body: Any) -> tuple[int, Any]:
        sampling = body["sampling_params"]
        assert sampling.get("detokenize") is bool(sampling.get("stop")), "vLLM refuses one without the other"
        first = len(body["token_ids"]) - len(PROMPT)
        said: list[int] = []
        for token in self.tokens[first : first + sampling["max_tokens"]]:
            said.append(token)
            text = TOKENIZER.decode(said)
            if token in sampling["stop_token_ids"] or any(each in text for each in sampling.get("stop", ())):
                break
        self._server.generated.append(body)
        choice = {
            "token_ids": said,
            "finish_reason": "stop",
            "weight_versions": [{"version": self._server.version, "start": 0, "end": len(said)}],
            "logprobs": {"content": [{"token_id": t, "logprob": -0.5 - first - at} for at, t in enumerate(said)]},
        }
        return 200, {"choices": [choice]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PolicyVersion]:
    folder, model = tmp_path_factory.mktemp("tags"), random_model(vocab_size=260)
    write_model_folder(model, make_tagged_tokenizer(), folder)
    return folder, PolicyVersion(policy="team", step=0, weights_digest=model_digest(model))


@pytest.fixture
def served(folder: tuple[Path, PolicyVersion]) -> Iterator[tuple[VllmGenerator, PolicyVersion, VllmWireServer]]:
    with wire_server() as server:
        engine = VllmGenerator(
            choose_generation(engine="vllm", vllm=VllmConfig()), model="team", urls=[server.url], key=KEY
        )
        engine.load(*folder)
        yield engine, folder[1], server
        engine.close()


def request(*seeds: int, **settings: Any) -> GenerationRequest:
    values: dict[str, Any] = {"max_new_tokens": 2, "temperature": 1.0, "prompt_tokens": PROMPT, **settings}
    return GenerationRequest(seeds_K=seeds or (3,), **values)


def said(answers: Sequence[tuple[Completion, ...]]) -> tuple[str, str]:
    ((completion, *others),) = answers
    assert all(other.tokens == completion.tokens for other in others)
    assert completion.logprobs == tuple(-0.5 - at for at in range(len(completion.tokens)))
    return TOKENIZER.decode_with_specials(completion.tokens), completion.finish_reason


@pytest.mark.parametrize(
    ("text", "settings", "expected", "asked"),
    [
        ("xxaby", {"stop": ("ab",), "max_new_tokens": 9}, ("xxab", "stop"), [9]),
        ("xxaby", {"stop": ("aby",), "max_new_tokens": 3}, ("xxab", "length"), [3]),
        ("xéx", {"stop": ("é",), "max_new_tokens": 9}, ("xé", "stop"), [9]),
        ("<think>ab</think>xyz", {"max_thinking_tokens": 5}, ("<think>ab</think>xy", "length"), [5, 2]),
        ("<think>abx</think>xyz", {"max_thinking_tokens": 3}, ("<think>abx", "length"), [3]),
        ("<think>ab</think>x<|end|>", {"max_thinking_tokens": 5}, ("<think>ab</think>x<|end|>", "stop"), [5, 2]),
        ("xyz<think>x", {"max_thinking_tokens": 6}, ("xy", "length"), [6]),
        ("x</think>yzxx", {"max_thinking_tokens": 6, "max_new_tokens": 3}, ("x</think>y", "length"), [6, 1]),
        ("xyzxyz", {"max_thinking_tokens": 2, "max_new_tokens": 4}, ("xyzx", "length"), [2, 2]),
        ("<think></think>xENDy", {"max_thinking_tokens": 2, "max_new_tokens": 9, "stop": ("xEND", ">xE")},
         ("<think></think>xE", "stop"), [2, 9]),
    ],
)  # fmt: skip
def test_an_answer_is_asked_for_as_far_as_it_may_go(
    served: tuple[VllmGenerator, PolicyVersion, VllmWireServer],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    settings: dict[str, Any],
    expected: tuple[str, str],
    asked: list[int],
) -> None:
    engine, version, server = served
    speaking = Speaking(server, text)
    monkeypatch.setattr(wire.VllmWireServer, "_inference_v1_generate", lambda handler, body: speaking(handler, body))
    assert said(engine.generate([request(**settings)], version)) == expected
    assert [body["sampling_params"]["max_tokens"] for body in server.generated] == asked


def test_a_continuation_has_a_seed_of_its_own_that_follows_from_the_candidates(
    served: tuple[VllmGenerator, PolicyVersion, VllmWireServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, version, server = served
    speaking = Speaking(server, "<think>x</think>xyz")
    monkeypatch.setattr(wire.VllmWireServer, "_inference_v1_generate", lambda handler, body: speaking(handler, body))
    seeds: list[list[int]] = []
    for _ in range(2):
        server.generated.clear()
        engine.generate([request(3, 4, max_thinking_tokens=5)], version)
        seeds.append(sorted(body["sampling_params"]["seed"] for body in server.generated))
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0])) == 4
    assert seeds[0][:2] == [3, 4]
    assert {body["cache_salt"] for body in server.generated} == {version.weights_digest}


def test_a_request_without_either_is_sent_as_ever(
    served: tuple[VllmGenerator, PolicyVersion, VllmWireServer],
) -> None:
    engine, version, server = served
    engine.generate([request()], version)
    (body,) = server.generated
    assert body["sampling_params"]["detokenize"] is False
    assert not {"stop", "include_stop_str_in_output"} & set(body["sampling_params"])


def test_prompt_thinking_and_answer_must_fit_the_server(
    served: tuple[VllmGenerator, PolicyVersion, VllmWireServer],
) -> None:
    engine, version, _ = served
    with pytest.raises(
        ConfigurationError, match=r"may take 65 tokens, but the servers of 'team' take 64.*max_thinking_t"
    ):
        engine.generate([request(max_thinking_tokens=60)], version)
