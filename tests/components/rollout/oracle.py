"""AT-GRPO's tree by brute force: slow, recursive, written from the paper's algorithm, sharing no code with the sampler.

It knows the toy's laws and the engine's answer function directly: no environment object, snapshot, router or batch.
"""

import random
from dataclasses import dataclass
from typing import Any

from components.identity import seed_for
from tests.components.rollout.toy_team import ALPHABET, ToyLaws, answer


@dataclass
class Game:
    payload: Any
    problem_id: str
    episode: int
    roles: tuple[str, ...]
    max_turns: int
    group_size: int
    seed: int
    step: int
    random_handoff_probability: float
    max_new_tokens: int


def grow(game: Game) -> tuple[list[dict[str, Any]], bool, bool]:
    """The nodes from the root on, whether the team succeeded, and whether the episode failed."""
    return _from(game, history=(), turn=0, position=0)


def _from(game: Game, history: Any, turn: int, position: int) -> tuple[list[dict[str, Any]], bool, bool]:
    if turn == game.max_turns:
        return [], False, False
    laws, agent = ToyLaws(game.payload), game.roles[position]
    if laws.blind(history, agent):
        return [], False, True
    prompt = laws.text(history, agent)
    candidates = []
    for k in range(game.group_size):
        written = answer(
            prompt, seed_for(game.seed, "rollout", game.step, game.problem_id, game.episode, turn, agent, k)
        )
        text = written[: game.max_new_tokens]
        future = (*history, (agent, text))
        if laws.fails(future):
            return [], False, True
        outcome = laws.outcome(future)
        candidates.append(
            {
                "text": text,
                "stopped": len(written) < game.max_new_tokens,
                "outcome": outcome,
                "reward": 2.0 * outcome.team["quality"] + 0.5 * outcome.local["style"],
            }
        )
    chosen, explored = _hand_on(game, turn, agent, [c["reward"] for c in candidates])
    node = {
        "turn": turn,
        "agent": agent,
        "prompt": tuple(ALPHABET.index(character) + 1 for character in prompt),
        "candidates": candidates,
        "chosen": chosen,
        "chosen_randomly": explored,
    }
    selected = candidates[chosen]
    if selected["outcome"].done:
        return [node], selected["outcome"].solves, False
    last = position == len(game.roles) - 1
    rest, success, failed = _from(game, (*history, (agent, selected["text"])), turn + last, 0 if last else position + 1)
    return [node, *rest], success, failed


def _hand_on(game: Game, turn: int, agent: str, rewards: list[float]) -> tuple[int, bool]:
    may_explore = game.random_handoff_probability > 0 and agent != game.roles[-1] and game.group_size > 1
    if may_explore:
        dice = random.Random(
            seed_for(game.seed, "handoff", "rollout", game.step, game.problem_id, game.episode, turn, agent)
        )
        if dice.random() < game.random_handoff_probability:
            return dice.randrange(game.group_size), True
    best = 0
    for k in range(1, len(rewards)):
        if rewards[k] > rewards[best]:
            best = k
    return best, False
