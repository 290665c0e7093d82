"""Problems with long tests: small in a store, whole when they are read."""

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.artifacts.codec import decode, encode
from components.environments.code.packed import LEAST_PACKED_CHARACTERS, MAX_TESTS_BYTES
from components.environments.code.problem import Case, CodeProblem
from components.schema import Episode, Problem, RolloutShard

Made = Callable[..., CodeProblem]


@given(texts=st.lists(st.text(max_size=20), min_size=1, max_size=4), repeats=st.sampled_from([1, 20_000]))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_problem_survives_its_payload(texts: list[str], repeats: int, doubling: Made) -> None:
    problem = doubling(hidden=tuple(Case(given=text * repeats, expected=text) for text in texts))
    payload = problem.model_dump(mode="json")
    assert CodeProblem.model_validate(json.loads(json.dumps(payload))) == problem
    is_long = sum(len(text) for case in problem.hidden for text in case) >= LEAST_PACKED_CHARACTERS
    assert is_long == ("packed" in payload)


def test_a_shard_of_very_regular_tests_can_be_stored(doubling: Made) -> None:
    """Plain, they would pack to a thousandth, which the store refuses as a bomb."""
    long = tuple(Case(given="1 " * 400_000 + f"{n}\n", expected="1") for n in range(40))
    payload = doubling(hidden=long).model_dump(mode="json")
    episodes = tuple(
        Episode(
            problem=Problem(problem_id=f"p{n}", environment="code", payload=payload), episode=0, nodes=(), success=False
        )
        for n in range(4)
    )
    shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=episodes)
    content = encode(shard)
    assert len(content) < 1 << 20
    again = decode(content, RolloutShard)
    assert CodeProblem.model_validate(again.episodes[3].problem.payload).hidden == long


@pytest.mark.parametrize(
    "bad",
    [
        "no base64!",
        base64.b64encode(b"no zlib").decode(),
        base64.b64encode(zlib.compress(b"[[]]")).decode(),
        base64.b64encode(zlib.compress(b"no json")).decode(),
        base64.b64encode(zlib.compress(b"[[],[],[]]")[:-4]).decode(),
        base64.b64encode(zlib.compress(bytes(MAX_TESTS_BYTES + 1))).decode(),
    ],
    ids=["base64", "zlib", "shape", "json", "cut", "bomb"],
)
def test_damaged_tests_are_refused(bad: str, doubling: Made) -> None:
    payload: dict[str, Any] = doubling().model_dump(mode="json")
    rest = {name: value for name, value in payload.items() if name not in ("visible", "hidden", "spare")}
    with pytest.raises(ValueError, match="CodeProblem"):
        CodeProblem.model_validate({**rest, "packed": bad})
