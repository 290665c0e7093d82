"""A language model and an RL policy play N games together: who decides, what they answer, and what came of it.

    decision = agent.decide(games.facts, games.states(), games.masks())
    agent.observe(games.step(decision.actions_N))

The adviser is asked only where it has control, all games in one batch, and once for equal descriptions; where a player is
stuck it is asked anew, since the answer of before did not help. In RL_ONLY and TEACHER the adviser is never asked, in LLM_ONLY
the policy never. Beyond `questions_per_episode` it has no new question, and where it would need one the policy decides.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from time import time
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from components.errors import ConfigurationError
from components.hybrid.arbitration import Actor, is_stuck
from components.hybrid.control import Control, ControlRule
from components.hybrid.decision_history import state_hash
from components.hybrid.decision_log import DecisionLog, DecisionSink
from components.hybrid.game_facts import Action, Booleans, Facts, Floats, GamesStep, Integers
from components.hybrid.game_text import phase_name, split_games
from components.hybrid.llm_actor import Advice, LlmActor, Question
from components.hybrid.strategies import Strategy

RECENT_ACTIONS, _RECENT_STATES = 4, 8


@lru_cache(maxsize=4096)
def description_hash(description: str) -> int:
    """The `state_hash` under which decisions in a state of this description are remembered."""
    return state_hash({"description": description})


class Policy(Protocol):
    """What the agent needs of a learner: see `MaskedPPO.choose`."""

    def choose(self, states_N_S: NDArray[Any], masks_N_A: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """An action of each game (N,), and the probabilities that it was drawn from (N, A)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRule:
    """Who decides, and how many answers are kept: fixed for a run."""

    control: ControlRule = field(default_factory=ControlRule)
    kept_answers: int = 20_000
    draws_anew: bool = False
    """The adviser draws for each game and step; no answer is kept, and equal states may have other answers."""
    questions_per_episode: int | None = None
    """New questions of a game in an episode; kept answers are none. None: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A legal action of each game (N,), who chose it, with what confidence of its own, and the language model's reasons."""

    actions_N: Integers
    by_llm_N: Booleans
    confidences_N: Floats
    reasons_N: tuple[str, ...] = ()
    draws_N: tuple[int | None, ...] = ()
    """The draw behind each of the language model's actions, where its adviser keeps draws."""
    num_unsure: int = 0
    """Games in which the language model had control, and was not sure enough for its advice to count."""


class HybridAgent:
    """The player of `num_games` games. Equal seeds, actors and games give equal play. One object, one thread.

    Raises ConfigurationError where the rule may ask an actor that is not given.
    """

    def __init__(
        self,
        rule: AgentRule,
        num_games: int,
        *,
        seed: int,
        policy: Policy | None = None,
        llm_actor: LlmActor | None = None,
        history: DecisionSink | None = None,
        first_episode: int = 0,
        clock: Callable[[], float] = time,
    ) -> None:
        mode = rule.control.mode.value
        if rule.control.asks_policy and policy is None:
            raise ConfigurationError(f"mode {mode}: give a policy")
        if rule.control.asks_adviser and llm_actor is None:
            raise ConfigurationError(f"mode {mode}: give an adviser")
        self.rule, self.num_games = rule, num_games
        self._policy, self._adviser = policy, llm_actor
        self.control = Control(rule.control, num_games, seed=seed)
        self._log = DecisionLog(history, num_games, first_episode=first_episode)
        self._answers: dict[str, Advice] = {}
        self._recent_actions: list[list[int]] = [[] for _ in range(num_games)]
        self._recent_states: list[list[int]] = [[] for _ in range(num_games)]
        self._asked_N = [0] * num_games
        self._is_refused_N = [False] * num_games
        self._clock = clock
        self._least_confidence = 0.0
        self.num_questions = 0

    def follow(self, strategy: Strategy, *, least_confidence: float = 0.0) -> None:
        """Give the language model the share of a strategy from the next decision on; advice less sure than that does not count.

        Where advice does not count the policy decides. Raises ConfigurationError outside of ADAPTIVE.

        **Example** `follow(Strategy.LLM_HEAVY, least_confidence=.3)`: 40 of 50 decisions, less those of which the model is not
        sure.
        """
        control = replace(self.rule.control, strategy=strategy)
        self.rule = replace(self.rule, control=control)
        self.control.rule, self._least_confidence = control, least_confidence

    def list_stuck(self) -> list[bool]:
        """Whether each game had stood in the same few states for a while, when it was decided last."""
        return [is_stuck(states) for states in self._recent_states]

    def decide(self, facts: Facts, states_N_S: NDArray[Any], masks_N_A: Booleans, *, explore: bool = True) -> Decided:
        """The next action in each game. `explore` is False in evaluation.

        **Example** 16 games, of which the adviser has control in 5 that stand on 3 different cells: one batch of 3 questions.
        """
        if not (
            self.rule.control.asks_adviser or self._log.is_kept
        ):  # nothing is asked or remembered: a learner's fast path
            actions_N, confidences_N = self._ask_policy(states_N_S, masks_N_A)
            return Decided(
                actions_N=actions_N, by_llm_N=np.zeros(self.num_games, np.bool_), confidences_N=confidences_N
            )
        questions = self._questions(facts, masks_N_A)
        phases = [phase_name(question.facts) for question in questions]
        stuck = self._stuck(questions)
        chosen, probabilities = self._ask_policy(states_N_S, masks_N_A)
        actors = self.control.next_actors(phases, stuck, explore=explore)
        led = {game: questions[game] for game, actor in enumerate(actors) if actor is Actor.LLM}
        advices = self._ask_adviser(led, stuck)
        advised_N = np.array([actor is Actor.LLM and game in advices for game, actor in enumerate(actors)])
        by_llm_N = advised_N & [
            game in advices and advices[game].confidence >= self._least_confidence for game in range(self.num_games)
        ]
        self._is_refused_N = [actor is Actor.LLM and game not in advices for game, actor in enumerate(actors)]
        actions_N, confidences_N = chosen.copy(), probabilities.copy()
        for game in np.flatnonzero(by_llm_N).tolist():
            actions_N[game], confidences_N[game] = advices[game].action, advices[game].confidence
        decided = Decided(
            actions_N=actions_N,
            by_llm_N=by_llm_N,
            confidences_N=confidences_N,
            reasons_N=tuple(advices[game].reasoning if led else "" for game, led in enumerate(by_llm_N)),
            draws_N=tuple(advices[game].draw if led else None for game, led in enumerate(by_llm_N)),
            num_unsure=int((advised_N & ~by_llm_N).sum()),
        )
        self._remember(questions, phases, decided)
        return decided

    def observe(self, step: GamesStep) -> None:
        """What the last decisions have brought: credit for the actors, and the ended episodes for the history.

        Raises the errors of the history. Nothing is lost then: its decisions wait for the next call.
        """
        over_N = step.ended_N | step.cut_N
        for game, (reward, is_over) in enumerate(zip(step.rewards_N.tolist(), over_N.tolist(), strict=True)):
            if not self._is_refused_N[game]:  # the policy's progress is no merit of the adviser
                self.control.credit(game, reward)
            self._log.credit(game, reward)
            if is_over:
                self.control.end_episode(game)
                self._recent_actions[game], self._recent_states[game] = [], []
                self._asked_N[game] = 0
        self._log.end_episodes(np.flatnonzero(over_N).tolist())

    def state_dict(self) -> dict[str, Any]:
        """All that decides how the agent goes on, beside its actors, as values of JSON."""
        kept = {text: [int(each.action), each.confidence, each.reasoning] for text, each in self._answers.items()}
        asked = {} if self.rule.questions_per_episode is None else {"asked": list(self._asked_N)}
        return asked | {
            "control": self.control.to_json(),
            "log": self._log.to_json(),
            "answers": kept,
            "recent_actions": [list(each) for each in self._recent_actions],
            "recent_states": [list(each) for each in self._recent_states],
            "num_questions": self.num_questions,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` of an agent with the same rule and as many games returned."""
        self.control.restore(state["control"])
        self._log.restore(state["log"])
        self._answers = {
            text: Advice(action=Action(action), confidence=confidence, reasoning=reasoning)
            for text, (action, confidence, reasoning) in state["answers"].items()
        }
        self._recent_actions = [list(each) for each in state["recent_actions"]]
        self._recent_states = [list(each) for each in state["recent_states"]]
        self.num_questions = state["num_questions"]
        self._asked_N = list(state.get("asked", self._asked_N))

    def _questions(self, facts: Facts, masks_N_A: Booleans) -> list[Question]:
        return [
            Question(
                facts=game,
                legal=tuple(Action(action) for action in np.flatnonzero(mask_A).tolist()),
                recent=tuple(map(Action, recent)),
            )
            for game, mask_A, recent in zip(split_games(facts), masks_N_A, self._recent_actions, strict=True)
        ]

    def _stuck(self, questions: list[Question]) -> list[bool]:
        """Whether each game has stood in the same few states for a while, this one included."""
        for states, question in zip(self._recent_states, questions, strict=True):
            states.append(hash(tuple(question.facts.values())))  # of whole numbers: alike in every process
            del states[:-_RECENT_STATES]
        return self.list_stuck()

    def _ask_policy(self, states_N_S: NDArray[Any], masks_N_A: Booleans) -> tuple[Integers, Floats]:
        """The policy's action in each game, and its probability: in all, so that its chance does not depend on who plays."""
        if self._policy is None or not self.rule.control.asks_policy:
            return np.zeros(self.num_games, np.int64), np.zeros(self.num_games)
        actions_N, probabilities_N_A = self._policy.choose(states_N_S, masks_N_A)
        return actions_N, np.clip(probabilities_N_A[np.arange(self.num_games), actions_N].astype(np.float64), 0, 1)

    def _ask_adviser(self, questions: Mapping[int, Question], stuck: list[bool]) -> dict[int, Advice]:
        """The answer for each of these games: a kept one, or one of a single batch of new questions; none beyond the limit."""
        questions = self._within_limit(questions, stuck)
        if self.rule.draws_anew and questions:
            assert self._adviser is not None, "the constructor refuses a rule without its actors"
            self.num_questions += len(questions)
            return dict(zip(questions, self._adviser.advise(list(questions.values())), strict=True))
        texts = {game: question.description for game, question in questions.items()}
        new = {texts[game]: question for game, question in questions.items() if stuck[game]}
        new |= {texts[game]: question for game, question in questions.items() if texts[game] not in self._answers}
        if new:
            assert self._adviser is not None, "the constructor refuses a rule without its actors"
            answers = self._adviser.advise(list(new.values()))
            self.num_questions += len(new)
            for text, question, answer in zip(new, new.values(), answers, strict=True):
                assert answer.action in question.legal, f"{answer.action.name} is not among {question.legal}"
                self._answers.pop(text, None)
                self._answers[text] = answer
        advices = {game: self._answers[text] for game, text in texts.items()}
        while len(self._answers) > self.rule.kept_answers:
            del self._answers[next(iter(self._answers))]
        return advices

    def _within_limit(self, questions: Mapping[int, Question], stuck: list[bool]) -> Mapping[int, Question]:
        """The questions that have a kept answer, and those that may still be asked in their episode, which are counted."""
        limit, within = self.rule.questions_per_episode, {}
        if limit is None:
            return questions
        for game, question in questions.items():
            is_new = self.rule.draws_anew or stuck[game] or question.description not in self._answers
            if is_new and self._asked_N[game] >= limit:
                continue
            self._asked_N[game] += is_new
            within[game] = question
        return within

    def _remember(self, questions: list[Question], phases: list[str], decided: Decided) -> None:
        now = self._clock()
        strategy = self.rule.control.strategy or self.rule.control.mode
        for game, (question, phase) in enumerate(zip(questions, phases, strict=True)):
            by_llm, action = bool(decided.by_llm_N[game]), int(decided.actions_N[game])
            self._recent_actions[game] = [*self._recent_actions[game], action][-RECENT_ACTIONS:]
            if not self._log.is_kept:
                continue
            self._log.add(
                game,
                state_hash=description_hash(question.description),
                action=action,
                source=Actor.LLM if by_llm else Actor.RL,
                confidence=float(decided.confidences_N[game]),
                phase=phase,
                strategy=strategy.value,
                reasoning=decided.reasons_N[game],
                timestamp=now,
            )
