"""Contenders: subjects of an evaluation made ready to play, in a session of their own."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef
from components.config import AgentConfig, ApiConfig, PolicyConfig, RunConfig, StoreConfig, parse_config
from components.environments.turn_orders import turn_order_of
from components.errors import ConfigurationError
from components.evaluation.subjects import (
    ApiSubject,
    RegisteredSubject,
    RoleMap,
    RunSubject,
    ScriptedSubject,
    Subject,
)
from components.machine.scratch import scratch_folder
from components.rollout.rules import playing_order
from components.runs.run import Run
from components.runs.steps import checkpoints_before, first_unfinished_step
from components.schema import PolicyVersion
from components.session.checkpoint_cache import CheckpointCache
from components.session.checkpoint_loading import LocalModel, load_checkpoint, local_model, model_settings
from components.session.engines import list_fixed_versions
from components.session.scenario import scenario_of
from components.session.session import Session
from components.session.stores import open_store
from components.turn_order import TurnOrder, agents_of

RunFinder = Callable[[RunSubject | RegisteredSubject], tuple[Run, int | None]]
"""The run, bound to the store that it is in, and the step that a subject names. Raises ConfigurationError."""
_TEAM = "team"
"""The policy of a model that plays every role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeights:
    """A checkpoint, and the run in whose store it is."""

    checkpoint: CheckpointRef
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """A policy and its weights: a checkpoint, a model's folder or name, or None for one behind an API."""

    settings: PolicyConfig | None
    """None for what a method trains beside the policies of the configuration."""
    weights: StoredWeights | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """Who plays which role: agents by role and their policies by name. Nothing is loaded yet."""

    name: str
    agents: Mapping[str, AgentConfig | None] | None
    """None: the one policy plays every role. A role without an agent is played by a model, under the role's name, and asked
    as what it plays says."""
    players: Mapping[str, Player]
    learned: RunConfig | None = None
    """The configuration of the run that trained it; of the first run, if there are several; None for other models."""
    script: str | None = None
    """The name of scripted players, which have no policies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsStore:
    """Where play is kept, and a store that takes none and may hold some from before."""

    config: StoreConfig
    earlier: StoreConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSubject:
    """A team that plays, or a script. `load` loads its weights into the session's engines, if they are not loaded."""

    name: str
    session: Session
    versions: Mapping[str, PolicyVersion]
    load: Callable[[], None]
    weights: Mapping[str, Player]
    """Where the weights are, for other processes."""
    script: str | None = None
    earlier: ArtifactStore | None = None
    """A store that is only read; play that it holds is not played again."""


def find_team(subject: Subject | RoleMap, find_run: RunFinder, *, title: str, may_play_games: bool = False) -> Team:
    """The team that a subject names; `title` is its name as it was written. Raises ConfigurationError, also for a run that
    plays games of its own, unless it may."""
    if isinstance(subject, Mapping):
        return _join(
            {role: find_team(each, find_run, title=_part(title, role)) for role, each in subject.items()}, title
        )
    if isinstance(subject, ScriptedSubject):
        return Team(name=subject.name, agents=None, players={}, script=subject.name)
    if isinstance(subject, RunSubject | RegisteredSubject):
        run, step = find_run(subject)
        if not may_play_games:
            check_answers(run)
        return read_run_team(run, step)
    if isinstance(subject, ApiSubject):
        api = ApiConfig.model_validate({"provider": subject.provider, "model": subject.model})
        settings = PolicyConfig(prompt_format="chat", trained=False, api=api)
        return Team(name=title, agents=None, players={_TEAM: Player(settings=settings, weights=None)})
    player = Player(settings=model_settings(subject.base), weights=subject.base)
    return Team(name=title, agents=None, players={_TEAM: player})


def read_run_team(run: Run, step: int | None) -> Team:
    """What a run has trained in `step` updates (None: all that are finished). Raises ConfigurationError."""
    at = check_reached_step(run, step)
    checkpoints = checkpoints_before(open_store(run.config.store), run, at)
    stored = {name: StoredWeights(checkpoint=each, run=run) for name, each in checkpoints.items()}
    settings = {**dict.fromkeys(run.config.method.own_policies), **run.config.policies}
    players = {name: Player(settings=each, weights=stored.get(name)) for name, each in settings.items()}
    return Team(name=f"{run.run_id}@{at}", agents=run.config.agents, players=players, learned=run.config)


@contextmanager
def open_subject(
    team: Team,
    played: RunConfig,
    *,
    store: ResultsStore,
    adjust: Callable[[RunConfig], RunConfig] = lambda config: config,
) -> Iterator[OpenSubject]:
    """The team, playing what `played` says, in a session whose results are kept as `store` says; closed with the block.

    `adjust` changes the configuration in which it plays. Raises ConfigurationError if a role is played by nobody.
    """
    config = adjust(played if team.script else _playing(team, played))
    with ExitStack() as opened:
        caches: dict[StoreConfig, CheckpointCache] = {}
        weights = {name: _prepare_weights(player, opened, caches) for name, player in team.players.items()}
        versions = list_fixed_versions(config) if team.players else {}
        # Written behind it, so that a store that takes no results loses no evaluation.
        run = Run(run_id="evaluation", config=config.model_copy(update={"store": store.config}))
        session = opened.enter_context(Session(run, computes_all=True))
        yield OpenSubject(
            name=team.name,
            session=session,
            versions=versions | {name: each.version(name) for name, each in weights.items() if each is not None},
            load=lambda: _load(session, weights),
            weights=team.players,
            script=team.script,
            earlier=None if store.earlier is None else open_store(store.earlier),
        )


def team_order(config: RunConfig, played: RunConfig, *, team: str) -> TurnOrder:
    """The turn order of `played`'s environment with the agents of `config`. Raises ConfigurationError if a role has none."""
    environment = scenario_of(played).family
    order = playing_order(
        config.rollout.mode, turn_order_of(environment, played.environment.turn_order), roles=environment.roles
    )
    if missing := set(agents_of(order, environment.roles)) - set(config.agents):
        raise ConfigurationError(
            f"{played.environment.name}: its roles {sorted(missing)} are played by nobody in {team}, whose roles are "
            f"{sorted(config.agents)}; name an environment with these roles"
        )
    return order


def run_checkpoints(run: Run, step: int | None) -> tuple[int, dict[str, CheckpointRef]]:
    """The number of updates, and the checkpoints after `step` of them (None: all that are finished). Raises
    ConfigurationError."""
    check_answers(run)
    at = check_reached_step(run, step)
    return at, checkpoints_before(open_store(run.config.store), run, at)


def check_answers(run: Run) -> None:
    """Raise ConfigurationError for a run whose player presses buttons."""
    if not run.config.method.writes_answers:
        raise ConfigurationError(
            f"run {run.run_id}: it trained a player of buttons, no language model; `troupe evaluate {run.run_id}` plays its "
            "games"
        )


def check_reached_step(run: Run, step: int | None) -> int:
    """`step`, or the number of finished updates for None. Raises ConfigurationError for a step that the run has not reached."""
    num_finished = first_unfinished_step(open_store(run.config.store), run)
    if step is not None and not 0 <= step <= num_finished:
        raise ConfigurationError(
            f"step {step} of run {run.run_id}: it has finished {num_finished} updates; use 0 to {num_finished}"
        )
    return num_finished if step is None else step


def _part(title: str, role: str) -> str:
    """What a role map's text says of one role."""
    return dict(part.partition("=")[::2] for part in title.split(","))[role]


def _join(parts: Mapping[str, Team], title: str) -> Team:
    """One team of several: each role with the policy that plays it in its own team, under the role's name.

    Raises ConfigurationError if a role is in none of its team, or if the teams compute or read answers differently.
    """
    agents: dict[str, AgentConfig | None] = {}
    players: dict[str, Player] = {}
    for role, team in parts.items():
        if team.agents is not None and role not in team.agents:
            raise ConfigurationError(
                f"subject {title!r}: {team.name} has no role {role!r}; its roles are {', '.join(sorted(team.agents))}"
            )
        agent = None if team.agents is None else team.agents[role]
        agents[role] = agent and agent.model_copy(update={"policy": role})
        players[role] = team.players[_TEAM if agent is None else agent.policy]
    learned = [(role, team.learned) for role, team in parts.items() if team.learned is not None]
    _check_alike(learned, title)
    name = ",".join(f"{role}={team.name}" for role, team in parts.items())
    return Team(name=name, agents=agents, players=players, learned=learned[0][1] if learned else None)


def _check_alike(learned: Sequence[tuple[str, RunConfig]], title: str) -> None:
    for role, config in learned[1:]:
        first_role, first = learned[0]
        for field, one, other in (
            ("generation", first.generation, config.generation),
            ("environment.answer_format", first.environment.answer_format, config.environment.answer_format),
        ):
            if one != other:
                raise ConfigurationError(
                    f"subject {title!r}: the runs of {first_role} and {role} differ in {field}, and a team has one; name runs "
                    "that agree"
                )


def _playing(team: Team, played: RunConfig) -> RunConfig:
    """The configuration in which the team plays: its own models, as they are, in what `played` says. What plays only its own
    games plays as `played` says. Raises ConfigurationError."""
    if not played.method.writes_answers:
        return played
    agents = _agents(team, played)
    policies = {name: _settings(team, played, name, agents) for name in team.players}
    if team.learned is not None:
        sections = ("environment", "execution", "sandbox", "rewards", "generation")
        changed = {name: getattr(played, name) for name in sections}
        config = team.learned.model_copy(update={**changed, "agents": agents, "policies": policies})
    else:
        config = parse_config(
            played.model_dump(mode="json")
            | {"policies": {name: each.model_dump(mode="json") for name, each in policies.items()}}
            | {"agents": {role: agent.model_dump(mode="json") for role, agent in agents.items()}}
        )
    team_order(config, config, team=team.name)
    return config


def _agents(team: Team, played: RunConfig) -> dict[str, AgentConfig]:
    """The agents of the team; those of models that have none as in `played`."""
    if team.agents is None:
        (player,) = team.players.values()
        return {role: _make_agent(played, role, player, policy=_TEAM) for role in scenario_of(played).family.roles}
    return {
        role: agent or _make_agent(played, role, team.players[role], policy=role) for role, agent in team.agents.items()
    }


def _make_agent(played: RunConfig, role: str, player: Player, *, policy: str) -> AgentConfig:
    """How a model is asked: as in `played`, whose limits and prompts are for models of its own prompt format; else by
    default."""
    if _policy_alike(played, role, player) is None:
        return AgentConfig(policy=policy)
    return played.agents[role].model_copy(update={"policy": policy})


def _policy_alike(played: RunConfig, role: str, player: Player) -> PolicyConfig | None:
    """The policy that plays a role in `played`, if it is asked in the player's prompt format."""
    agent = played.agents.get(role)
    assert player.settings is not None, f"{role} is asked for no answer"
    policy = None if agent is None else played.policies[agent.policy]
    return policy if policy is not None and policy.prompt_format == player.settings.prompt_format else None


def _settings(team: Team, played: RunConfig, name: str, agents: Mapping[str, AgentConfig]) -> PolicyConfig:
    """The policy `name` of a team, untrained; that of a model with the arguments of its chat template as in `played`. Raises
    ConfigurationError if they differ between its roles."""
    player = team.players[name]
    assert player.settings is not None, f"{name} is asked for no answer"
    settings = player.settings.model_copy(update={"trained": False})
    own = [role for role, agent in agents.items() if agent.policy == name]
    if settings.api is not None or any((team.agents or {}).get(role) is not None for role in own):
        return settings
    alike = {role: policy for role in own if (policy := _policy_alike(played, role, player)) is not None}
    given = [policy.chat_template_arguments for policy in alike.values()]
    if any(each != given[0] for each in given):
        raise ConfigurationError(
            f"policies.<name>.chat_template_arguments: {', '.join(alike)} have different ones, and {team.name} plays all of "
            f"them; name it for each role, as {','.join(f'{role}={team.name}' for role in alike)}"
        )
    return settings.model_copy(update={"chat_template_arguments": given[0] if given else {}})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checkpoint:
    """A checkpoint whose files are fetched when it is loaded."""

    checkpoint: CheckpointRef
    copies: CheckpointCache

    def version(self, policy: str) -> PolicyVersion:
        ref = self.checkpoint
        return PolicyVersion(policy=policy, step=ref.step, weights_digest=ref.weights_digest)

    def load(self, session: Session, policy: str) -> None:
        load_checkpoint(session, self.checkpoint.model_copy(update={"policy": policy}), self.copies)


def _prepare_weights(
    player: Player, opened: ExitStack, caches: dict[StoreConfig, CheckpointCache]
) -> _Checkpoint | LocalModel | None:
    """The weights of a player, in folders that are removed when `opened` closes; those of one store in one of `caches`, where
    adapters share their base."""
    if isinstance(player.weights, StoredWeights):
        config = player.weights.run.config
        if config.store not in caches:
            caches[config.store] = CheckpointCache(open_store(config.store), num_policies=len(config.policies))
            opened.callback(caches[config.store].close)
        return _Checkpoint(checkpoint=player.weights.checkpoint, copies=caches[config.store])
    if player.weights is None:
        return None
    work = Path(mkdtemp(prefix="evaluate-", dir=scratch_folder()))
    opened.callback(shutil.rmtree, work, ignore_errors=True)
    return local_model(player.weights, into=work)


def load_missing(session: Session, versions: Mapping[str, PolicyVersion], players: Mapping[str, Player]) -> None:
    """Load the weights of `players` that the session's engines do not hold."""
    caches: dict[StoreConfig, CheckpointCache] = {}
    with ExitStack() as opened:
        for policy, version in versions.items():
            if policy not in players or policy not in session.config.policies:
                continue
            if session.config.policies[policy].api is None and session.engines.of(policy).version != version:
                found = _prepare_weights(players[policy], opened, caches)
                assert found is not None, f"{policy} has no weights to load"
                found.load(session, policy)


def _load(session: Session, weights: Mapping[str, _Checkpoint | LocalModel | None]) -> None:
    for policy, each in weights.items():
        if each is not None and policy in session.config.policies:
            each.load(session, policy)
