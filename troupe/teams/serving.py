"""A run's team behind one endpoint, for programs that speak to OpenAI or Anthropic."""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from components.environments.program import AgentProgram
from components.errors import ConfigurationError
from components.gateway.asking import CALLS_AT_ONCE, ask_engine, open_sampling
from components.gateway.endpoint import Endpoint
from components.gateway.gateway import ServedPolicy
from components.gateway.program_play import serve_seat
from components.generation.base import Completion, GenerationRequest
from components.machine.closeable import Closeable
from troupe.teams.run_team import Team

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTeam(Closeable):
    """A team that answers at `url` until it is closed. `models` are the names that programs ask for: roles, then policies, then
    those that the environment's program names."""

    name: str
    url: str
    key: str
    models: tuple[str, ...]
    endpoint: Endpoint
    team: Team

    def close(self) -> None:
        """Stop listening, and free the engines."""
        self.endpoint.close()
        self.team.close()


def serve_team(team: Team, *, host: str = "127.0.0.1", port: int = 0, key: str | None = None) -> ServedTeam:
    """Serve the team; `port` 0 is a free one, `key` None a new random one. Raises ConfigurationError."""
    models, program = list_models(team), find_program(team)
    names = {name: role for name, role in program.models.items() if name not in models and role in models}
    mode = team.config.generation.call_mode
    endpoint = Endpoint(
        models,
        open_sampling(partial(_ask, team), mode),
        seed=secrets.randbits(62),
        num_at_once=CALLS_AT_ONCE[mode],
    )
    key = key or secrets.token_urlsafe(24)
    try:
        url = endpoint.listen(host, port, key, names=names, sub_agents=program.sub_agents)
    except BaseException:
        endpoint.close()
        raise
    return ServedTeam(name=team.name, url=url, key=key, models=(*models, *names), endpoint=endpoint, team=team)


def list_models(team: Team) -> dict[str, ServedPolicy]:
    """The team's policies by role, with the role's limits and temperature, and by their own names. Raises ConfigurationError
    where all are behind an API."""
    models = {
        role: serve_seat(
            seat,
            team.session.engines.of(seat.policy),
            team.router.versions[seat.policy],
            temperature=team.config.rollout.temperature,
            chooses=team.config.environment.answer_format == "choice",
        )
        for role, seat in team.session.scenario.seats.items()
        if team.config.policies[seat.policy].api is None
    }
    if not models:
        raise ConfigurationError(f"{team.name}: all of its policies are behind an API, so there is nothing to serve")
    policies = {served.policy: served for served in models.values() if served.policy not in models}
    return {**models, **policies}


def find_program(team: Team) -> AgentProgram:
    """The program of the first problem, for the names by which it asks; one without any where there is none, or where its
    problems are not here, of which a warning tells."""
    try:
        scenario = team.session.scenario
        return scenario.family.first_program(scenario.options, seed=team.config.seed) or AgentProgram()
    except ConfigurationError as error:
        _log.warning("%s is served by roles and policies alone: %s", team.name, error)
        return AgentProgram()


def _ask(team: Team, policy: str, requests: Sequence[GenerationRequest]) -> list[tuple[Completion, ...]]:
    return ask_engine(team.session.engines.of(policy), requests, team.router.versions[policy])
