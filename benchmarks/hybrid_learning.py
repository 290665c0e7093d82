"""Are both gyms of the homebrew cartridge won by training? A policy learns on the twin, then plays there and on the emulator.

    python -m benchmarks.hybrid_learning [--seeds 1] [--most-steps 2500000] [--episodes 100] [--no-emulator]
    python -m benchmarks.hybrid_learning --network cnn [--seeds 1] [--most-steps 40960] [--episodes 100]

Training is by `collect_experience` and `update_learner`, and stops where 95 of the last 100 episodes from the true start reach
the goal. Evaluation samples from the policy, and presses its most likely button (greedy, as `GreedyPolicy` says), each episode
with another start that training has not seen; random play is beside it. Rates have Wilson's 95% bounds, steps to a badge are
the median of the episodes that win it.

With `--network cnn` the policy sees the screen, and learns on the emulator to find the starter within 100 buttons.
"""

import argparse
import time
from collections import deque
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.games_in_processes import emulator_opener
from benchmarks.homebrew_settings import both_badges
from benchmarks.markdown import markdown
from components.hybrid.agent import HybridAgent, Policy
from components.hybrid.evaluation_games import GreedyPolicy, make_held_out_settings
from components.hybrid.experience import (
    GamesOpener,
    HybridSettings,
    collect_experience,
    new_learner_state,
    open_twins,
    read_policy,
    update_learner,
)
from components.hybrid.game_boy.cartridges import homebrew_cartridge
from components.hybrid.masked_ppo import PPORule
from components.hybrid.recording_games import Played, SnapshotGames, play_episodes
from components.machine.process_variables import read_variables
from components.mathematics.intervals import wilson_interval

LAST_EPISODES, ENOUGH, EVALUATION_SEED = 100, 0.95, 12345
MOST_STEPS = {"mlp": 2_500_000, "cnn": 40_960}
FROM_SCREENS = HybridSettings(num_games=16, max_steps=100, goal_badges=1, learner=PPORule(network="cnn"))


class RandomPolicy:
    """Presses any allowed button."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def choose(self, states_N_S: NDArray[Any], masks_N_A: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """An action of each game, and the probabilities it was drawn from."""
        drawn_N_A = np.where(masks_N_A, self._rng.random(masks_N_A.shape), -1)
        return drawn_N_A.argmax(axis=1), masks_N_A / masks_N_A.sum(axis=1, keepdims=True)


def main() -> None:
    """Print the curve of each seed, and the table of rates."""
    arguments = _arguments()
    torch.set_num_threads(1)
    if arguments.network == "cnn":
        for seed in range(arguments.seeds):
            print("\n" + starter_rates(seed, arguments.most_steps, arguments.episodes), flush=True)
        return
    body = []
    for seed in range(arguments.seeds):
        settings = both_badges()
        state = train_state(settings, seed, arguments.most_steps)
        players: dict[str, Policy] = {
            "sampled": read_policy(settings, state, seed=seed),
            "greedy": GreedyPolicy(read_policy(settings, state, seed=seed)),
            "random": RandomPolicy(seed),
        }
        for place in ("twin",) if arguments.no_emulator else ("twin", "emulator"):
            for name, policy in players.items():
                body.append([f"{name}, seed {seed}", place, *rates(settings, policy, place, arguments.episodes)])
                print(" | ".join(body[-1]), flush=True)
    columns = ["player", "place", "starter", "first badge", "steps to it", "both badges", "steps to both"]
    print("\n" + markdown(columns, body))


def train_state(settings: HybridSettings, seed: int, most_steps: int) -> dict[str, NDArray[Any]]:
    """The state after training, with a line every 20 steps of it."""
    state, start = new_learner_state(settings, seed), time.process_time()
    ends: deque[bool] = deque(maxlen=LAST_EPISODES)
    each = settings.num_games * settings.learner.steps
    for step in range(most_steps // each):
        experience = collect_experience(settings, state, seed, step)
        state, metrics = update_learner(settings, state, experience, seed)
        ends += experience.goals_from_start
        rate = float(np.mean(ends)) if ends else 0.0
        if step % 20 == 19:
            print(
                f"{time.process_time() - start:.0f} CPU s, {(step + 1) * each:,} steps: goal {rate:.2f} from the start,"
                f" entropy {metrics['train/policy/entropy']:.2f}",
                flush=True,
            )
        if len(ends) == LAST_EPISODES and rate >= ENOUGH:
            print(f"enough after {time.process_time() - start:.0f} CPU s, {(step + 1) * each:,} steps", flush=True)
            break
    return state


def starter_rates(seed: int, most_steps: int, num_episodes: int) -> str:
    """The starter rates of a policy that learns from screens and of random play, with bounds; a line for each step of it."""
    settings, start = FROM_SCREENS, time.process_time()
    state = new_learner_state(settings, seed, open_games=on_emulator())
    each = settings.num_games * settings.learner.steps
    for step in range(most_steps // each):
        experience = collect_experience(settings, state, seed, step, open_games=on_emulator())
        state, metrics = update_learner(settings, state, experience, seed)
        print(
            f"{time.process_time() - start:.0f} CPU s of the learner, {(step + 1) * each:,} steps: "
            f"starter {metrics['rollout/starter_rate']:.2f} of {metrics['rollout/num_episodes']:.0f} episodes",
            flush=True,
        )
    body = []
    sampled: Policy = read_policy(settings, state, seed=seed)
    players = {"sampled": sampled, "greedy": GreedyPolicy(sampled), "random": RandomPolicy(seed)}
    for name, policy in players.items():
        with open_games(replace(settings, num_games=num_episodes), "emulator") as games:
            agent = HybridAgent(settings.agent, num_episodes, seed=0, policy=policy)
            body.append([f"{name}, seed {seed}", _rate(play_episodes(agent, games, explore=False).starter_N)])
    return markdown(["player", "starter within 100 buttons"], body)


def rates(settings: HybridSettings, policy: Any, place: str, num_episodes: int) -> list[str]:
    """The rate of the starter, and those of the first badge and of both, each with the median steps to it."""
    played = []
    for badges in (1, 2):
        goal = replace(settings, num_games=num_episodes, goal_badges=badges)
        with open_games(goal, place) as games:
            agent = HybridAgent(settings.agent, num_episodes, seed=0, policy=policy)
            played.append(play_episodes(agent, games, explore=False))
    badges = [cell for each in played for cell in (_rate(each.goal_N), _steps(each))]
    return [_rate(played[0].starter_N), *badges]


def open_games(settings: HybridSettings, place: str) -> AbstractContextManager[SnapshotGames]:
    """Games at their start with starts that training has not seen."""
    opener = open_twins if place == "twin" else on_emulator()
    return opener(make_held_out_settings(settings, settings.num_games), EVALUATION_SEED)


def on_emulator() -> GamesOpener:
    """Opens games on the cartridge, in two processes."""
    return emulator_opener(homebrew_cartridge(), num_processes=2, environment=read_variables())


def _steps(played: Played) -> str:
    return f"{np.median(played.lengths_N[played.goal_N]):.0f}" if played.goal_N.any() else "never"


def _rate(reached_N: NDArray[np.bool_]) -> str:
    low, high = wilson_interval(int(reached_N.sum()), len(reached_N), 1.96)
    return f"{reached_N.mean():.2f} ({low:.2f}-{high:.2f})"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=sorted(MOST_STEPS), default="mlp")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--most-steps", type=int)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--no-emulator", action="store_true")
    arguments = parser.parse_args()
    if arguments.network == "cnn" and arguments.no_emulator:
        parser.error("--no-emulator: --network cnn sees the emulator's screen; leave one out")
    arguments.most_steps = arguments.most_steps or MOST_STEPS[arguments.network]
    return arguments


if __name__ == "__main__":
    main()
