"""An environment of the pipeline, played answer by answer: by the rules of training."""

import weakref
from collections.abc import Mapping
from typing import Any, ClassVar

from components.environments.base import Split
from components.environments.family import Family
from components.environments.play import Playthrough, Position
from components.errors import ConfigurationError, ExecutionFailed
from components.schema import ActionOutcome
from components.session.scenario import scenario_of
from components.session.toolbox import Toolbox
from components.session.user_sources import with_environment_source
from components.suggestions import suggest
from components.turn_order import Phase
from flows.api.petting.configs import DOMAINS
from flows.api.petting.multi_agent_env.base import Action, Env, Observed, Result
from flows.api.petting.run_configs import run_config, stated_config

_SPLITS: Mapping[str, Split] = {"train": "train", "test": "test"}


class TeamEnv(Env):
    """The environment of a configuration. Programs run in the sandbox, which the first one opens.

    A problem is a pure function of the configuration's seed, the split and its number. Agents who act side by side see the same
    state; `step` takes their answers one after another, or at once by agent, and applies them when all have answered.
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
        named = config if isinstance(config, str) else self._filled(config or {})
        settled = with_environment_source(run_config(stated_config(named, None, settings)))
        self._scenario = scenario_of(settled)
        self._check_environment(settled.environment.name)
        self._split = _SPLITS[split]
        self._next_problem = 0
        self._turn_order, self._rubric = self._scenario.turn_order, self._scenario.rubric
        self._toolbox = Toolbox(self._scenario)
        self._played: Playthrough | None = None
        self._phase: Phase | None = None
        self._answers: dict[str, str] = {}
        self._end = weakref.finalize(self, self._toolbox.close)  # a loop may forget to close it

    @property
    def roles(self) -> tuple[str, ...]:
        """The agents of the team."""
        return self._scenario.family.roles

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

    def reset(self, problem: int | None = None) -> Observed:
        """Begin an episode on problem number `problem`; None: on the next one, from 0 on. What the first agent sees."""
        index = self._next_problem if problem is None else problem
        if index < 0:
            raise ConfigurationError(f"problem {index}: problems count from 0")
        self._next_problem = index + 1
        family, config = self._scenario.family, self._scenario.config
        drawn = family.problem(self._scenario.options, split=self._split, index=index, seed=config.seed)
        self._played = family.build(drawn, self._toolbox.tools())
        self._answers = {}
        self._phase = self._phase_after(None)
        return self._observed()

    def step(self, action: Action) -> Result:
        """See `Env.step`. The reward is that of trees in training; of agents side by side the sum of theirs, 0.0 until all have
        answered.

        `info` holds `success` (whether the problem is solved), `truncated` (the turns are used up), `agent` and `turn`, and in
        `agents` for each that acted its `reward`, the `team` and `local` components of it, `solves` and `error`. Raises
        ExecutionFailed if the sandbox failed, which is no answer's fault; the episode stands where it was.
        """
        played, phase = self.playthrough, self._phase
        if phase is None:
            raise ConfigurationError("env.step(): the episode is over; call reset() for another one")
        waiting = self._taken(action, phase)
        if waiting:
            return self._observed(), 0.0, False, {**self._facts(phase), "agents": {}}
        texts, self._answers = [self._answers[agent] for agent in phase.agents], {}
        outcomes, after = played.referee.advance(played.position, phase, texts)
        failed = next((outcome.unscorable for outcome in outcomes if outcome.unscorable is not None), None)
        if failed is not None:
            raise ExecutionFailed(failed)
        played.position = Position(state=after.state, is_done=after.is_done, is_solved=after.is_solved)
        self._phase = self._phase_after(phase)
        acted = {agent: self._fact(each) for agent, each in zip(phase.agents, outcomes, strict=False)}
        info = {**self._facts(phase), "agents": acted}
        reward = sum(each["reward"] for each in acted.values())
        return self._observed(phase), float(reward), self._phase is None, info

    def render(self, *, color: bool = False) -> str:
        """The state for people."""
        return self.playthrough.render(color=color)

    def close(self) -> None:
        """End the sandboxes. The next program opens others."""
        self._toolbox.close()

    def _taken(self, action: Action, phase: Phase) -> tuple[str, ...]:
        """The agents of the phase who have not answered, once `action` is taken."""
        waiting = self._waiting(phase)
        given = {waiting[0]: action} if isinstance(action, str) else dict(action)
        for agent, text in given.items():
            if agent not in waiting:
                raise ConfigurationError(f"env.step(): {agent!r} does not act now; {suggest(str(agent), waiting)}")
            if not isinstance(text, str):
                raise ConfigurationError(f"env.step(): the answer of {agent} is {type(text).__name__}; give it as text")
        self._answers.update(given)
        return self._waiting(phase)

    def _waiting(self, phase: Phase) -> tuple[str, ...]:
        return tuple(agent for agent in phase.agents if agent not in self._answers)

    def _phase_after(self, phase: Phase | None) -> Phase | None:
        position, max_turns = self.playthrough.position, self._scenario.config.environment.max_turns
        return self.playthrough.referee.next_phase(position, self._turn_order, after=phase, max_turns=max_turns)

    def _observed(self, last: Phase | None = None) -> Observed:
        """What the next agent sees; at the end, what the last one sees."""
        phase = self._phase or last
        assert phase is not None, "nobody acts in this problem"
        agent = (self._waiting(phase) or phase.agents)[0]
        seen = self.playthrough.observe(agent)
        return {"agent": agent, "turn": phase.turn, "state": seen.state, "instructions": seen.instructions}

    def _facts(self, phase: Phase) -> dict[str, Any]:
        position = self.playthrough.position
        truncated = self._phase is None and not position.is_done
        return {"success": position.is_solved, "truncated": truncated, "agent": phase.agents[-1], "turn": phase.turn}

    def _fact(self, outcome: ActionOutcome) -> dict[str, Any]:
        components = {"team": dict(outcome.team), "local": dict(outcome.local)}
        return {"reward": self._rubric.reward(outcome), **components, "solves": outcome.solves, "error": outcome.error}

    def _filled(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """A configuration that names none is the single policy of the domain."""
        own = {"config_name": f"{self.domain or 'games'}_single_policy"}
        return (
            config
            if "config_name" in config
            else {**own, **({"env_name": self.env_name} if self.env_name else {}), **config}
        )

    def _check_environment(self, name: str) -> None:
        known = [self.env_name] if self.env_name else DOMAINS[self.domain] if self.domain else [name]
        if name not in known:
            raise ConfigurationError(
                f"config: its environment is {name!r}, and {type(self).__name__} plays {', '.join(map(str, known))}; pass a "
                f"configuration of that, as get_config('{self.domain}_single_policy')"
            )
