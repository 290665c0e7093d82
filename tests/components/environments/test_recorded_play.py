"""What recorded runs hold stays: every family plays under fixed seeds to the digest that is written here."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from random import Random
from typing import Any

import pytest

from components.environments.base import ToolCall
from components.environments.play import Playthrough
from components.environments.registry import family, family_options
from components.identity import canonical_json
from components.schema import ActionOutcome, Execution, ExecutionResult, Passage, Query
from tests.components.environments.newest_rewards import keep_newest_rewards
from tests.components.environments.social.games import ALONE

NONSENSE = (
    *("", "nonsense", "[]", "```python\nprint(1)\n```", "1 => 1", "? ann\n", "= ann", "\\boxed{7}", "12", "print(3)"),
)
NUM_PROBLEMS, NUM_TURNS = 3, 4

PLAYED: Sequence[tuple[str, Mapping[str, Any], str]] = [
    ("plan_path", {}, "4685bbb18113de57"),
    (
        "plan_path",
        {"tool": "python", "size": 4, "min_distance": 2, "max_distance": 6, "max_moves": 6},
        "6d126f86f66eb674",
    ),
    ("sokoban", {"size": 5, "min_distance": 3, "max_distance": 8, "max_moves": 8}, "0fa85f6b01c4beee"),
    ("sudoku", {"num_blanks": 4}, "56b4dfa6c68a111a"),
    ("sudoku", {"size": 6, "tool": "python"}, "0326679f95d2b883"),
    ("blocksworld", {"num_blocks": 4, "max_distance": 6}, "cb3f4dc417e7e381"),
    ("eight_queens", {"size": 6, "num_free": 3}, "53def5f0265fcb28"),
    ("code", {"levels": [0, 1], "kinds": ["stdin"]}, "c1c334a0672de2ba"),
    ("code", {"levels": [2, 3], "kinds": ["function"], "max_feedback_characters": 60}, "ae9f4e0eaaebf3d6"),
    ("math", {}, "8c5b9af4786bb69c"),
    ("math", {"level": 2, "prose": True, "max_answer_characters": 60}, "ae955b968b8cd243"),
    ("search", {"level": 0}, "fb01d30ef027f3f2"),
    ("search", {"level": 1}, "7e28e2429b3f34de"),
    ("shop", {"level": 1}, "e69c1baac1b02bad"),
    ("shop", {"level": 3, "max_answer_characters": 40}, "42798afdef5f5110"),
    ("calendar", {"level": 2}, "9101e9b70515ee8a"),
    ("file_tree", {"level": 2}, "6497ac5c7898cc16"),
]


class SomeTools:
    """The world outside an environment: what a call answers is drawn from the call itself, or is in `right`."""

    def __init__(self, right: Mapping[str, str]) -> None:
        self.right = right

    def run(self, execution: Execution) -> ExecutionResult:
        rng = Random(f"{execution.program}|{execution.stdin}")
        printed = rng.choice([self.right.get(execution.stdin, "4"), "4", '["U", "D"]', "5\n", "7"])
        status: Any = rng.choice(["ok", "ok", "ok", "ok", "nonzero_exit", "wall_timeout", "memory"])
        return ExecutionResult(
            status=status, stdout=printed, stderr="went wrong", exit_code=0, wall_seconds=0.0, cpu_seconds=0.0
        )

    def retrieve(self, query: Query) -> tuple[Passage, ...]:
        known = [word for word in query.text.split() if word.strip("?")]
        return tuple(Passage(title=word, text=f"{word} boss ann, town rome", score=1.0) for word in known[:2])

    def prepare(self, calls: Sequence[ToolCall]) -> None:
        raise AssertionError(calls)


def right_outputs(payload: Mapping[str, Any]) -> dict[str, str]:
    """What the tests of a programming problem expect, by their input."""
    cases = [case for name in ("visible", "hidden", "spare") for case in payload.get(name, ())]
    return {given: f"\n@result {expected}\n" if payload["entry"] else expected for given, expected in cases}


def read_views(env: Playthrough) -> list[Any]:
    return [
        *(asdict(env.observe(role)) for role in env.roles),
        *(env.local_reward(role) for role in env.roles),
        *(env.team_reward, env.done, env.success, env.render(color=False), env.render(color=True)),
    ]


_NEWER = ("team_from_start", "value_gain", "payoffs")


def facts_of(outcome: ActionOutcome) -> dict[str, Any]:
    """The facts that the oldest records have too."""
    return {name: value for name, value in asdict(outcome).items() if name not in _NEWER}


def play(name: str, options: Mapping[str, Any]) -> str:
    """A digest of all that can be seen of a family's play from outside."""
    chosen: Any = family(name)
    checked = family_options(name, options)
    told: list[Any] = [chosen.roles, dict(chosen.default_weights), chosen.alphabet(checked)]
    told += [chosen.max_action_characters(checked), chosen.copies_proposals, chosen.uses_sandbox(checked)]
    for split in ("train", "test"):
        for index in range(NUM_PROBLEMS):
            problem = chosen.problem(checked, split=split, index=index, seed=11)
            told += [problem.problem_id, problem.payload]
            env = chosen.build(problem, SomeTools(right_outputs(problem.payload) if name == "code" else {}))
            rng = Random(f"{name} {split} {index}")
            if index == 1:
                env.position = chosen.scramble(env.position, rng, env.referee.tools)
            for _ in range(NUM_TURNS):
                for role in env.roles:
                    told.append(read_views(env))
                    before = env.position
                    noisy = [
                        chosen.noisy_expert_action(env.position, role, noise=noise, rng=rng) for noise in (0.2, 0.9)
                    ]
                    expert, lucky = (
                        chosen.expert_action(env.position, role),
                        chosen.random_action(env.position, role, rng),
                    )
                    for answer in (expert, *noisy, lucky, rng.choice(NONSENSE), rng.choice(NONSENSE)):
                        env.position = before
                        told.append([answer, [repr(call) for call in env.referee.calls(env.position, role, answer)]])
                        told += [facts_of(env.apply(role, answer)), read_views(env)]
                    env.position = before
                    env.apply(role, rng.choice([expert, noisy[1], lucky, rng.choice(NONSENSE)]))
            told.append(read_views(env))
    return hashlib.sha256(canonical_json({"told": json.loads(json.dumps(told))})).hexdigest()[:16]


@pytest.mark.parametrize(("name", "options", "digest"), PLAYED)
def test_a_family_plays_as_it_was_recorded(name: str, options: Mapping[str, Any], digest: str) -> None:
    assert play(name, options) == digest


def test_every_family_is_played() -> None:
    assert {name for name, _, _ in PLAYED} == set(ALONE)


if __name__ == "__main__":
    keep_newest_rewards()
    for name, options, _ in PLAYED:
        print(f'    ("{name}", {json.dumps(options)}, "{play(name, options)}"),')
