"""Who should play: the modes of the hybrid agent, with a competent adviser, a bad one, an aimless one, or a language model.

    python -m benchmarks.hybrid_modes [--seeds 3] [--episodes 200] [--policy-steps 20480 65536] [--place twin]
        [--advisers competent 'confident, bad'] [--modes LLM_ONLY RL_ONLY ADAPTIVE ...] [--lessons]

A policy is trained on the twin for each seed and number of steps. Then each mode plays with each adviser, on the twin or on the
emulator: episodes in which arbitration learns, then as many as `--episodes` with equal starts and draws in all modes. A rate is
of the badge over all seeds, with Wilson's 95% bounds. The adviser `smollm2-135m` (`make smollm`) is asked about each situation
once a seed. `--lessons` trains RL_ONLY and TEACHER (good, wrong) on the dense and on the badge-only reward, and prints the
steps that they need.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from benchmarks.games_in_processes import GamesInProcesses
from benchmarks.markdown import markdown
from benchmarks.scripted_advisers import AimlessAdviser, CompetentAdviser, ConfidentBadAdviser
from benchmarks.scripted_lessons import GOOD_LESSON, WRONG_LESSON, read_scripted_lesson
from components.hybrid.agent import AgentRule, HybridAgent
from components.hybrid.arbitration import Mode
from components.hybrid.control import ControlRule
from components.hybrid.episodes import EpisodeRule
from components.hybrid.game_boy.cartridges import homebrew_cartridge
from components.hybrid.language_model import LanguageModelAdviser, button_prompt
from components.hybrid.llm_actor import Advice, LlmActor, Question
from components.hybrid.masked_ppo import MaskedPPO, PPORule
from components.hybrid.recording_games import Played, SnapshotGames, play_episodes
from components.hybrid.rewards import RewardWeights
from components.hybrid.strategies import TARGET_LLM_SHARES, Strategy
from components.hybrid.subgoals import Lesson, weights_with_lesson
from components.hybrid.twin import Twin
from components.machine.process_variables import read_variables
from components.mathematics.intervals import wilson_interval

MAX_STEPS = 200
LEARNER = PPORule(steps=64, minibatch=512)
LESSON_LEARNER = PPORule(steps=128, minibatch=256)
CONTROLS = {
    "LLM_ONLY": ControlRule(mode=Mode.LLM_ONLY),
    "RL_ONLY": ControlRule(mode=Mode.RL_ONLY),
    "ADAPTIVE": ControlRule(),
    **{strategy.name: ControlRule(strategy=strategy) for strategy in Strategy},
}
SMOLLM = "smollm2-135m"
ADVISERS: dict[str, Callable[[int], LlmActor]] = {
    "competent": CompetentAdviser,
    "confident, bad": ConfidentBadAdviser,
    "aimless": AimlessAdviser,
    SMOLLM: cache(lambda seed: AskedOnce(smollm())),
}
TWIN, EMULATOR = "twin", "emulator"
NUM_LEARNING = 50
"""Games at once in which arbitration learns, twice."""
DENSE = RewardWeights()
SPARSE = replace(RewardWeights(), party=0.0, caught=0.0, levels=0.0, events=0.0, maps=0.0, tiles=0.0, subgoals=0.0)
MOST_STEPS, WANTED_RATE = 122_880, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What a mode reached with an adviser, over all seeds."""

    policy_steps: int
    llm_actor: str
    mode: str
    plays: tuple[Played, ...]

    @property
    def rate(self) -> float:
        """The share of episodes with the badge."""
        return float(np.mean([play.goal_N.mean() for play in self.plays]))

    @property
    def llm_share(self) -> float:
        """The share of decisions that the adviser had."""
        return sum(int(play.by_llm_N.sum()) for play in self.plays) / sum(
            int(play.lengths_N.sum()) for play in self.plays
        )

    def row(self) -> list[str]:
        """The cell as a row of the table."""
        won, all_episodes = (
            sum(int(play.goal_N.sum()) for play in self.plays),
            sum(len(play.goal_N) for play in self.plays),
        )
        low, high = wilson_interval(won, all_episodes, 1.96)
        lengths = np.concatenate([play.lengths_N[play.goal_N] for play in self.plays])
        median = f"{np.median(lengths):.0f}" if len(lengths) else ""
        return [
            f"{self.policy_steps:,}", self.llm_actor, self.mode, str(all_episodes), f"{self.rate:.3f}", f"{low:.3f}-{high:.3f}",
            median, f"{self.llm_share:.3f}",
        ]  # fmt: skip


def smollm() -> LlmActor:
    """SmolLM2-135M-Instruct as it is, in float32. Raises ServiceMissing without its weights (`make smollm`)."""
    from components.config import TransformersGeneration
    from components.generation.local.engine import TransformersGenerator
    from components.session.checkpoint_loading import local_model

    generator = TransformersGenerator(TransformersGeneration.model_validate({"dtype": "float32"}))
    with TemporaryDirectory() as folder:
        model = local_model(SMOLLM, into=Path(folder))
        version = model.version(SMOLLM)
        generator.load(model.folder, version)
    return LanguageModelAdviser(generator, version)


class AskedOnce:
    """An adviser that is asked about each question once, whichever mode asks; equal questions have equal answers."""

    def __init__(self, llm_actor: LlmActor) -> None:
        self._adviser = llm_actor
        self.answers: dict[str, Advice] = {}

    def advise(self, questions: Sequence[Question]) -> list[Advice]:
        prompts = [button_prompt(question) for question in questions]
        new = {
            prompt: question for prompt, question in zip(prompts, questions, strict=True) if prompt not in self.answers
        }
        if new:
            self.answers |= dict(zip(new, self._adviser.advise([*new.values()]), strict=True))
        return [self.answers[prompt] for prompt in prompts]


def main() -> None:
    """Print the table of modes, what follows from it, and with `--lessons` that of the teachers."""
    arguments = _arguments()
    torch.set_num_threads(1)
    titles = ["policy steps", "adviser", "mode", "episodes", "badge", "95%", "steps to it", "LLM share"]
    cells = []
    for cell in play_cells(arguments):
        cells.append(cell)
        print(" | ".join(cell.row()), flush=True)
    print(f"\n{markdown(titles, [cell.row() for cell in cells])}\n")
    for claim in claims(cells):
        print(claim)
    if arguments.lessons:
        print_lessons(arguments.seeds)


def play_cells(arguments: argparse.Namespace) -> Iterator[Cell]:
    """Every mode with every adviser and policy."""
    for policy_steps in arguments.policy_steps:
        policies = [train_policy(seed, policy_steps) for seed in range(arguments.seeds)]
        for llm_actor in arguments.advisers:
            for mode in arguments.modes:
                plays = tuple(
                    play_mode(CONTROLS[mode], policy, ADVISERS[llm_actor](seed), seed, arguments)
                    for seed, policy in enumerate(policies)
                )
                yield Cell(policy_steps=policy_steps, llm_actor=llm_actor, mode=mode, plays=plays)


def train_policy(seed: int, num_steps: int) -> MaskedPPO:
    """A policy after that many steps of 32 games."""
    learner, twin = MaskedPPO(LEARNER, seed=seed), Twin(32, seed=seed)
    for _ in range(max(1, num_steps // (32 * LEARNER.steps))):
        learner.update(learner.collect(twin))
    return learner


def play_mode(
    control: ControlRule, policy: MaskedPPO, llm_actor: LlmActor, seed: int, arguments: argparse.Namespace
) -> Played:
    """`--episodes` episodes of a mode; where it measures progress, after 100 in which it did."""
    policy.reseed(seed)
    agent = HybridAgent(AgentRule(control=control), NUM_LEARNING, seed=seed, policy=policy, llm_actor=llm_actor)
    learned = None
    if control.mode is Mode.ADAPTIVE and not control.strategy:
        for part in range(2):
            with open_games(arguments.place, NUM_LEARNING, 1000 * seed + part) as games:
                play_episodes(agent, games, explore=True)
            agent = _beginning_anew(agent, NUM_LEARNING, seed, policy, llm_actor)
        learned = agent
    policy.reseed(seed)
    agent = HybridAgent(AgentRule(control=control), arguments.episodes, seed=seed, policy=policy, llm_actor=llm_actor)
    if learned is not None:
        agent.control.learn_from(learned.control)
    with open_games(arguments.place, arguments.episodes, 99 + seed) as games:
        return play_episodes(agent, games, explore=False)


def open_games(place: str, num_games: int, seed: int) -> AbstractContextManager[SnapshotGames]:
    """Games at their start, whose goal is the first badge."""
    if place == TWIN:
        return nullcontext(Twin(num_games, seed=seed, rule=EpisodeRule(max_steps=MAX_STEPS)))
    rule = EpisodeRule(max_steps=MAX_STEPS)
    return GamesInProcesses(
        homebrew_cartridge(), num_games, num_processes=1, seed=seed, environment=read_variables(), rule=rule
    )


def _beginning_anew(
    agent: HybridAgent, num_games: int, seed: int, policy: MaskedPPO, llm_actor: LlmActor
) -> HybridAgent:
    """An agent at the start of its games that knows what this one has learned."""
    other = HybridAgent(agent.rule, num_games, seed=seed, policy=policy, llm_actor=llm_actor)
    other.control.learn_from(agent.control)
    return other


def claims(cells: list[Cell]) -> Iterator[str]:
    """What must hold: ADAPTIVE beside the better of both alone, and the shares of fixed strategies beside their targets."""
    found = {(cell.policy_steps, cell.llm_actor, cell.mode): cell for cell in cells}
    for steps, llm_actor, mode in found:
        alone = [
            found[steps, llm_actor, name].rate for name in ("LLM_ONLY", "RL_ONLY") if (steps, llm_actor, name) in found
        ]
        if mode == "ADAPTIVE" and alone:
            better = max(alone)
            difference = found[steps, llm_actor, mode].rate - better
            yield _claim(
                difference >= -0.05, f"{steps:,} {llm_actor}: ADAPTIVE {difference:+.3f} beside the better of both"
            )
        if mode in Strategy.__members__:
            difference = found[steps, llm_actor, mode].llm_share - TARGET_LLM_SHARES[Strategy[mode]]
            yield _claim(
                abs(difference) <= 0.05, f"{steps:,} {llm_actor}: share of {mode} {difference:+.3f} beside its target"
            )


def _claim(holds: bool, text: str) -> str:
    return f"{'holds' if holds else 'FAILS'}: {text}"


def print_lessons(num_seeds: int) -> None:
    """The steps until half of the last 100 episodes have the badge, by reward and teacher."""
    lessons = {"none": None, "good": read_scripted_lesson(GOOD_LESSON), "wrong": read_scripted_lesson(WRONG_LESSON)}
    body = []
    for reward, weights in (("dense", DENSE), ("badge only", SPARSE)):
        for name, lesson in lessons.items():
            needed = [steps_to_badge(weights, lesson, seed) for seed in range(num_seeds)]
            spelled = [f"{steps:,}" if steps else f"never in {MOST_STEPS:,}" for steps in needed]
            body.append([reward, name, *spelled])
            print(" | ".join(body[-1]), flush=True)
    print(f"\n{markdown(['reward', 'teacher', *(f'seed {seed}' for seed in range(num_seeds))], body)}")


def steps_to_badge(weights: RewardWeights, lesson: Lesson | None, seed: int) -> int | None:
    """The steps until half of the last 100 episodes have the badge; None where that never happens."""
    if lesson is not None:
        weights = weights_with_lesson(weights, lesson)
    learner = MaskedPPO(LESSON_LEARNER, seed=seed)
    twin = Twin(16, seed=seed, rule=EpisodeRule(weights=weights, subgoals=lesson.subgoals if lesson else ()))
    ends: list[bool] = []
    watched = _Watched(twin, ends)
    for update in range(1, MOST_STEPS // (16 * 128) + 1):
        learner.update(learner.collect(watched))
        if len(ends) >= 100 and np.mean(ends[-100:]) >= WANTED_RATE:
            return update * 16 * 128
    return None


class _Watched:
    """A twin that notes of each episode whether it had the badge."""

    def __init__(self, twin: Twin, ends: list[bool]) -> None:
        self._twin, self._ends = twin, ends
        self.states, self.masks = twin.states, twin.masks

    def step(self, actions_N: np.ndarray) -> object:
        step = self._twin.step(actions_N)
        self._ends += step.ended_N[step.ended_N | step.cut_N].tolist()
        return step


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=200, help="of a seed and cell")
    parser.add_argument("--policy-steps", type=int, nargs="+", default=[20_480, 65_536])
    parser.add_argument("--place", choices=(TWIN, EMULATOR), default=TWIN)
    parser.add_argument("--advisers", nargs="+", choices=ADVISERS, default=["competent", "confident, bad", "aimless"])
    parser.add_argument("--modes", nargs="+", choices=CONTROLS, default=[*CONTROLS])
    parser.add_argument("--lessons", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
