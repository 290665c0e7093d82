"""Agents that answer what an environment shows them."""

from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Protocol

from components.environments.family import Family, require_expert
from components.errors import ConfigurationError
from components.evaluation.held_out import temperature_of
from components.freed import Freed
from components.identity import seed_for
from components.rollout.router import RoleRequest
from components.schema import Observation
from components.suggestions import suggest
from flows.api.petting.model_paths import checked_sampling, loaded_team
from flows.api.petting.multi_agent_env.base import Observed
from flows.api.petting.multi_agent_env.team_env import TeamEnv

SCRIPTS = ("expert", "random", "noop")


class Agent(Protocol):
    """Whoever plays."""

    def act(self, obs: Observed) -> str:
        """The answer to what the agent sees."""


class ScriptedAgent:
    """Plays every role of an environment: as its expert, at random but well-formed, or with empty answers.

    **Example** `ScriptedAgent(env, "expert").act(env.reset())` is the right answer of the first agent.
    """

    def __init__(self, env: TeamEnv, script: str = "expert", *, seed: int = 0) -> None:
        """Raises ConfigurationError for an unknown script, or an environment without an expert."""
        if script not in SCRIPTS:
            raise ConfigurationError(f"script {script!r}: {suggest(script, SCRIPTS)}")
        self._env, self._script, self._rng = env, script, Random(seed)
        if script == "expert":
            require_expert(env.family)

    def act(self, obs: Observed) -> str:
        """The script's answer for `obs["agent"]` where the episode stands."""
        family: Family = self._env.family
        position, agent = self._env.playthrough.position, str(obs["agent"])
        if self._script == "random":
            return family.random_action(position, agent, self._rng)
        return family.expert_action(position, agent) if self._script == "expert" else ""


class PolicyAgent(Freed):
    """Plays every role of a team by the policies of a checkpoint, or by a model; freed by `close` or a `with` block.

    **Example** `with PolicyAgent("checkpoints/model_2000", "code_single_policy") as agent: agent.act(obs)`.
    """

    def __init__(
        self,
        model_path: str | Path,
        config_name: str | dict[str, Any] | None = None,
        *,
        sampling: str = "greedy",
        seed: int = 0,
    ) -> None:
        """`model_path` and `config_name` are those of `evaluate`. Raises ConfigurationError."""
        self._temperature = temperature_of(checked_sampling(sampling))
        self._seed, self._num_answers = seed, 0
        self._ends = ExitStack()
        team = self._ends.enter_context(loaded_team(model_path, config_name))
        self._router = team.session.router(dict(team.versions))

    def act(self, obs: Observed) -> str:
        """The answer of the policy that plays `obs["agent"]`. Sampled ones have a seed each."""
        role, router = str(obs["agent"]), self._router
        router.policy_of(role)
        seen = Observation(instructions=str(obs["instructions"]), state=str(obs["state"]))
        prompt_tokens = router.encode(role, seen)
        seed = seed_for(self._seed, "act", self._num_answers)
        self._num_answers += 1
        request = RoleRequest(role=role, prompt_tokens=prompt_tokens, seeds_K=(seed,))
        ((completion,),) = router.generate([request], temperature=self._temperature)
        return router.decode(role, completion.tokens, prompt_tokens)

    def close(self) -> None:
        """Free the engines."""
        self._ends.close()
