"""Teams of checkpoints and models, whose policies answer what an environment shows them."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from components.evaluation.held_out import temperature_of
from components.identity import seed_for
from components.machine.freed import Freed
from components.rollout.router import RoleRequest
from components.schema import Observation
from flows.api.petting.model_paths import check_sampling, find_named_team, open_team
from flows.api.petting.multi_agent_env.base import Observed
from flows.api.petting.run_configs import stated_config


class LoadedTeam(Freed):
    """The team of a checkpoint or a model, its weights loaded and verified; freed by `close` or a `with` block."""

    def __init__(self, model_path: str | Path, config_name: str | dict[str, Any] | None = None) -> None:
        """`model_path` and `config_name` are those of `evaluate`. Raises ConfigurationError."""
        stated = None if config_name is None else stated_config(config_name, None, {})
        with ExitStack() as opened:
            team = opened.enter_context(open_team(find_named_team(model_path, stated)))
            team.load()
            self._session, self._router = team.session, team.session.router(dict(team.versions))
            self._ends = opened.pop_all()

    def close(self) -> None:
        """Free engines and sandboxes."""
        self._ends.close()


class PolicyAgent(LoadedTeam):
    """Plays every role of a team by the policies of a checkpoint, or by a model.

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
        self._temperature = temperature_of(check_sampling(sampling))
        self._seed, self._num_answers = seed, 0
        super().__init__(model_path, config_name)

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
