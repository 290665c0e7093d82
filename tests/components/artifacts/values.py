"""Strategies for the values of an iteration, and one shard of the usual size."""

import random
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from components.identity import GroupKey
from components.schema import (
    ActionOutcome,
    Candidate,
    Episode,
    EvalReport,
    IterationReport,
    Node,
    PolicyVersion,
    Problem,
    RolloutShard,
    ScoredShard,
    TrainBatch,
)

names = st.text(max_size=8)
counts = st.integers(min_value=0, max_value=2**31)
floats = st.floats(allow_nan=False)
any_values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | names,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(names | st.sampled_from(["$tuple", "$dict"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def of_hint(hint: Any) -> st.SearchStrategy[Any]:
    """Values of an annotation of a field, with few elements."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (Union, UnionType):
        return st.one_of(*map(of_hint, inner))
    if origin is tuple and inner[-1] is not Ellipsis:
        return st.tuples(*map(of_hint, inner))
    if origin is not None and issubclass(origin, tuple):
        return st.lists(of_hint(inner[0]), max_size=4).map(tuple)
    if origin is not None:
        return st.dictionaries(of_hint(inner[0]), of_hint(inner[1]), max_size=2)
    plain = {str: names, int: counts, float: floats, bool: st.booleans(), type(None): st.none(), Any: any_values}
    return plain[hint] if hint in plain else of_kind(hint)


@cache
def of_kind(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Values of a dataclass, all of whose fields are drawn."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{each.name: of_hint(hints[each.name]) for each in fields(kind)})


STORED = (Episode, RolloutShard, ScoredShard, TrainBatch, EvalReport, IterationReport, Problem)
any_stored = st.one_of(*map(of_kind, STORED))


def a_candidate(rng: random.Random, *, num_tokens: int = 11) -> Candidate:
    """A random candidate of plan_path's length."""
    team: Mapping[str, Any] = {"solved": float(rng.random() < 0.3), "progress": rng.random()}
    return Candidate(
        tokens=tuple(rng.randrange(200) for _ in range(num_tokens)),
        sampler_logprobs=tuple(-rng.random() for _ in range(num_tokens)),
        finish_reason="stop",
        text="UDLRUDLRUD",
        outcome=ActionOutcome(team=team, local={"clean": 1.0, "legal": 1.0}, solves=False, done=False),
        reward=rng.random(),
    )


def a_shard(*, num_turns: int = 128, group_size: int = 8, seed: int = 0) -> RolloutShard:
    """A shard of episodes with four turns each and 60 prompt tokens per turn."""
    rng = random.Random(seed)
    played = []
    for index in range(num_turns // 4):
        turns_N = tuple(
            Node(
                group=GroupKey(problem_id=f"p{index}", episode=0, turn=node // 2, agent="plan_agent"),
                policy="main",
                prompt_tokens=tuple(rng.randrange(200) for _ in range(60)),
                candidates=tuple(a_candidate(rng) for _ in range(group_size)),
                chosen=2,
            )
            for node in range(4)
        )
        payload = {"grid": [[0, 1, 2, 3, 4]] * 5, "start": [0, 1]}
        problem = Problem(problem_id=f"p{index}", environment="plan_path", payload=payload)
        played.append(Episode(problem=problem, episode=0, nodes=turns_N, success=False))
    version = PolicyVersion(policy="main", step=0, weights_digest="a" * 64)
    return RolloutShard(step=0, shard=0, policy_versions={"main": version}, episodes=tuple(played))
