"""A run's team behind one endpoint, for programs that speak to OpenAI or Anthropic."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from components.errors import ConfigurationError
from components.gateway.asking import CALLS_AT_ONCE, ask_engine, open_sampling
from components.gateway.endpoint import Endpoint
from components.gateway.gateway import ServedPolicy
from components.gateway.program_play import serve_seat
from components.generation.base import Completion, GenerationRequest
from components.machine.closeable import Closeable
from troupe.teams.run_team import Team


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTeam(Closeable):
    """A team that answers at `url` until it is closed. `models` are the names that programs ask for: roles, then policies."""

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
    models = list_models(team)
    mode = team.config.generation.call_mode
    endpoint = Endpoint(
        models,
        open_sampling(partial(_ask, team), mode),
        seed=secrets.randbits(62),
        num_at_once=CALLS_AT_ONCE[mode],
    )
    key = key or secrets.token_urlsafe(24)
    try:
        url = endpoint.listen(host, port, key)
    except BaseException:
        endpoint.close()
        raise
    return ServedTeam(name=team.name, url=url, key=key, models=tuple(models), endpoint=endpoint, team=team)


def list_models(team: Team) -> dict[str, ServedPolicy]:
    """The team's policies by role, with the role's limits and temperature, and by their own names. Raises ConfigurationError
    where all are behind an API."""
    models = {
        role: serve_seat(
            seat,
            team.session.engines.of(seat.policy),
            team.router.versions[seat.policy],
            temperature=team.config.rollout.temperature,
        )
        for role, seat in team.session.scenario.seats.items()
        if team.config.policies[seat.policy].api is None
    }
    if not models:
        raise ConfigurationError(f"{team.name}: all of its policies are behind an API, so there is nothing to serve")
    policies = {served.policy: served for served in models.values() if served.policy not in models}
    return {**models, **policies}


def _ask(team: Team, policy: str, requests: Sequence[GenerationRequest]) -> list[tuple[Completion, ...]]:
    return ask_engine(team.session.engines.of(policy), requests, team.router.versions[policy])
