"""What the documented API plays: an environment of the pipeline, answer by answer, by the rules of training."""

import weakref
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from components.environments.base import Split
from components.environments.family import Family
from components.environments.play import Playthrough
from components.errors import ConfigurationError, ExecutionFailed
from components.machine.closeable import Closeable
from components.schema import ActionOutcome
from components.session.scenario import scenario_of
from components.session.toolbox import Toolbox
from components.text.suggestions import suggest
from components.turn_order import Phase
from flows.api.petting.configs import DOMAINS, merge_config, run_config
from flows.own_files import with_environment_source

Observed = dict[str, Any]
"""What the agent whose turn it is sees: `agent`, `turn`, `state` (the text of the state) and `instructions` (its role and the
grammar of its answer)."""
Result = tuple[Observed, float, bool, dict[str, Any]]
"""The observation after an answer, its reward, whether the episode is over, and facts about it."""
_SPLITS: Mapping[str, Split] = {"train": "train", "test": "test", "validate": "test"}


class Agent(Protocol):
    """Whoever plays."""

    def act(self, obs: Observed) -> str:
        """The answer to what the agent sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentData:
    """What an agent was shown last, answered last (None: nothing yet) and earned by that; the rest is the episode's."""

    current_prompt: Observed | None = None
    current_action: str | None = None
    agent_reward: float = 0.0
    success: bool = False
    done: bool = False


class Env(Closeable):
    """The environment of a configuration, one team on one problem after another. Programs run in the sandbox, which the first
    one opens.

    A problem is a pure function of the configuration's seed, the split and its number. Agents who act side by side see the same
    state; `step` takes their answers one after another, and applies them when all have answered.
    """

    domain: ClassVar[str | None] = None
    """The domain whose environments it plays; None for all."""
    env_name: ClassVar[str | None] = None
    """The only environment of the domain that it plays; None for all."""

    def __init__(self, config: Mapping[str, Any] | str | None = None, *, split: str = "train", **settings: Any) -> None:
        """`config` is a configuration or its name (None, or a dict without a name: the single policy of the domain), `settings`
        are keys of it with other values. Raises ConfigurationError for one of another domain."""
        if split not in _SPLITS:
            raise ConfigurationError(f"split {split!r}: {suggest(split, _SPLITS)}")
        default = f"{self.domain or 'games'}_single_policy"
        if not isinstance(config, str) and "config_name" not in (config or {}):
            config = {"config_name": default, "env_name": self.env_name, **(config or {})}
        settled = with_environment_source(run_config(merge_config(config, settings)))
        self._scenario, name = scenario_of(settled), settled.environment.name
        known = [self.env_name] if self.env_name else DOMAINS[self.domain] if self.domain else [name]
        if name not in known:
            raise ConfigurationError(
                f"config: its environment is {name!r}, and {type(self).__name__} plays {', '.join(map(str, known))}; pass a "
                f"configuration of that, as get_config({default!r})"
            )
        self.env_idx = self.rollout_idx = 0
        self._split, self._next_problem = _SPLITS[split], 0
        self._toolbox = Toolbox(self._scenario)
        self._played: Playthrough | None = None
        self._answers: dict[str, str] = {}
        self._agents: dict[str, AgentData] = {}
        self._end = weakref.finalize(self, self._toolbox.close)  # a loop may forget to close it

    @property
    def family(self) -> Family:
        """The environment as the pipeline knows it: its problems, its play, its scripted players."""
        return self._scenario.family

    @property
    def playthrough(self) -> Playthrough:
        """The episode being played."""
        if self._played is None:
            raise ConfigurationError("env: no episode has begun; call reset() first")
        return self._played

    @property
    def agents(self) -> Mapping[str, AgentData]:
        """What each agent has seen, answered and earned in this episode."""
        played = self.playthrough
        own = {role: self._agents.get(role, AgentData()) for role in self.family.roles}
        return {role: replace(each, success=played.success, done=played.phase is None) for role, each in own.items()}

    def reset(self, problem: int | None = None) -> Observed:
        """Begin an episode on problem number `problem`; None: on the next one, from 0 on. What the first agent sees."""
        index = self._next_problem if problem is None else problem
        if index < 0:
            raise ConfigurationError(f"problem {index}: problems count from 0")
        self._next_problem = index + 1
        options, seed = self._scenario.options, self._scenario.config.seed
        drawn = self.family.problem(options, split=self._split, index=index, seed=seed)
        self._played = self.family.build(drawn, self._toolbox.tools())
        self._answers, self._agents = {}, {}
        self._played.phase = self._find_phase(after=None)
        return self._observe(self._played.phase)

    def step(self, action: str) -> Result:
        """Apply the answer of the agent whose turn it is. Never raises on what an agent writes: an answer outside its grammar
        has an `error`. The reward is that of trees in training; of agents side by side the sum of theirs, 0.0 until all have
        answered.

        `info` holds `success` (whether the problem is solved), `truncated` (the turns are used up), `agent` and `turn`, and in
        `agents` for each that acted its `reward`, the `team` and `local` components of it, `solves` and `error`. Raises
        ExecutionFailed if the sandbox failed, which is no answer's fault; the episode stands where it was.
        """
        played, phase = self.playthrough, self.playthrough.phase
        if phase is None:
            raise ConfigurationError("env.step(): the episode is over; call reset() for another one")
        agent = self._next_agent(phase)
        if not isinstance(action, str):
            raise ConfigurationError(f"env.step(): the answer of {agent} is {type(action).__name__}; give it as text")
        acted: dict[str, dict[str, Any]] = {}
        self._answers[agent] = action
        if len(self._answers) == len(phase.agents):
            texts, self._answers = list(self._answers.values()), {}
            outcomes, after = played.referee.advance(played.position, phase, texts)
            failed = next((outcome.unscorable for outcome in outcomes if outcome.unscorable is not None), None)
            if failed is not None:
                raise ExecutionFailed(failed)
            played.position = replace(after, beside=None)
            played.phase = self._find_phase(after=phase)
            acted = {name: self._describe(each) for name, each in zip(phase.agents, outcomes, strict=False)}
            for name, text in zip(acted, texts, strict=False):
                reward = acted[name]["reward"]
                self._agents[name] = replace(self._agents[name], current_action=text, agent_reward=reward)
        done = played.phase is None
        facts = {"success": played.success, "truncated": done and not played.done, "agent": phase.agents[-1]}
        reward = float(sum(each["reward"] for each in acted.values()))
        return self._observe(played.phase or phase), reward, done, {**facts, "turn": phase.turn, "agents": acted}

    def close(self) -> None:
        """End the sandboxes. The next program opens others."""
        self._toolbox.close()

    def _next_agent(self, phase: Phase) -> str:
        """The first agent of the phase who has not answered; at the end of the episode, the first."""
        return next((agent for agent in phase.agents if agent not in self._answers), phase.agents[0])

    def _find_phase(self, *, after: Phase | None) -> Phase | None:
        played, most = self.playthrough, self._scenario.config.environment.max_turns
        return played.referee.next_phase(played.position, self._scenario.turn_order, after=after, max_turns=most)

    def _observe(self, phase: Phase | None) -> Observed:
        """What the next agent of the phase sees."""
        assert phase is not None, "nobody acts in this problem"
        agent = self._next_agent(phase)
        seen = self.playthrough.observe(agent)
        shown = {"agent": agent, "turn": phase.turn, "state": seen.state, "instructions": seen.instructions}
        self._agents[agent] = replace(self._agents.get(agent, AgentData()), current_prompt=shown)
        return shown

    def _describe(self, outcome: ActionOutcome) -> dict[str, Any]:
        components = {"team": dict(outcome.team), "local": dict(outcome.local)}
        reward = self._scenario.rubric.reward(outcome)
        return {"reward": reward, **components, "solves": outcome.solves, "error": outcome.error}


class EnvBatch(Closeable):
    """`samples` environments on each of several problems, begun, which share their sandboxes; freed by `close`.

    `env_list[i * samples + k]` plays problem `env_indices[i]`, and is named by its `env_idx`, `env_idx_list[i]`, and its
    `rollout_idx`, the next of `rollout_idx_list`. `mode`: train, or validate for held-out problems.

    **Example** `EnvBatch([0, 1], [40, 41], range(8), 4, 3, single_policy.get_config())`: 8 environments, 4 on each problem.
    """

    def __init__(
        self,
        env_idx_list: Sequence[int],
        env_indices: Sequence[int],
        rollout_idx_list: Sequence[int],
        samples: int,
        max_turns: int,
        config: Mapping[str, Any] | str,
        mode: str = "train",
    ) -> None:
        """Raises ConfigurationError for a wrong configuration, and for lists that do not fit."""
        lengths = len(env_idx_list), len(env_indices), len(rollout_idx_list)
        if samples < 1 or lengths != (lengths[1], lengths[1], lengths[1] * samples):
            raise ConfigurationError(
                f"env_idx_list, env_indices, rollout_idx_list: they have {lengths} numbers; give as many of the first two, and "
                f"samples ({samples}) times as many of the third"
            )
        self._first = Env(config, split=mode, max_turns=max_turns)
        self.env_list = [copy(self._first) for _ in rollout_idx_list]
        for number, env in enumerate(self.env_list):
            env.env_idx, env.rollout_idx = env_idx_list[number // samples], rollout_idx_list[number]
            env.reset(env_indices[number // samples])

    def close(self) -> None:
        """End the sandboxes of all."""
        self._first.close()
