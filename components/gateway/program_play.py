"""The gateway of a run's policies, for environments that are played by programs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from components.artifacts.base import ArtifactStore
from components.config import RunConfig
from components.errors import ConfigurationError
from components.gateway.asking import CALLS_AT_ONCE, PROGRAMS_AT_ONCE, ask_engine, open_sampling
from components.gateway.calls import CallJournal, StoredCalls, UnkeptCalls
from components.gateway.door import ProgramDoor
from components.gateway.encoder import make_encoder
from components.gateway.gateway import Gateway, ServedPolicy
from components.gateway.play import ProgramPlay
from components.gateway.programs import OpenBoxes, ProgramRunner
from components.generation.base import Completion, GenerationRequest, Generator, before_stop
from components.identity import fingerprint, seed_for
from components.machine.scratch import private_folder
from components.models.tokenizer import HuggingFaceTokenizer
from components.rollout.router import RoleBinding
from components.rollout.rules import SamplingRules
from components.schema import PolicyVersion


def open_program_play(
    engines: Mapping[str, Generator],
    seats: Mapping[str, RoleBinding],
    versions: Mapping[str, PolicyVersion],
    *,
    runner: ProgramRunner,
    config: RunConfig,
    calls: tuple[ArtifactStore, str] | None,
) -> ProgramPlay:
    """What plays programs with these policies. Calls are kept in the store `calls`, below its prefix; None: they are not.

    Under `environment.answer_format: choice` policies draw among the values of a tool's only argument. Raises
    ConfigurationError for a policy behind an API.
    """
    mode, chooses = config.generation.call_mode, config.environment.answer_format == "choice"

    def open_journal(session: str) -> CallJournal:
        return UnkeptCalls() if calls is None else StoredCalls(calls[0], f"{calls[1]}/agents/{session}")

    def ask(policy: str, requests: Sequence[GenerationRequest]) -> list[tuple[Completion, ...]]:
        return ask_engine(engines[policy], requests, versions[policy])

    def decode_answer(role: str, tokens: Sequence[int]) -> str:
        return before_stop(engines[seats[role].policy].tokenizer.decode(tokens), seats[role].stop)

    served = {
        role: serve_seat(seat, engines[seat.policy], versions[seat.policy], temperature=1.0, chooses=chooses)
        for role, seat in seats.items()
    }

    def open_gateway(rules: SamplingRules) -> Gateway:
        models = {
            role: replace(each, temperature=_choose_temperature(rules, seats[role])) for role, each in served.items()
        }
        seed = seed_for(rules.seed, *rules.purpose)
        return Gateway(models=models, sample=open_sampling(ask, mode), seed=seed, num_at_once=CALLS_AT_ONCE[mode])

    return ProgramPlay(
        open_gateway=open_gateway,
        journal=open_journal,
        runner=runner,
        decode_answer=decode_answer,
        num_at_once=PROGRAMS_AT_ONCE[mode],
    )


def open_runner(config: RunConfig, owner: Sequence[str], open_boxes: OpenBoxes) -> ProgramRunner:
    """What runs the programs of an `owner`, as a store and a run in it, in a folder of its own or in boxes."""
    folder = private_folder("troupe-programs") / fingerprint([*owner])
    door = ProgramDoor(num_at_once=CALLS_AT_ONCE[config.generation.call_mode])
    return ProgramRunner(folder, door, open_boxes=open_boxes, boxes_all=config.sandbox.agents == "box")


def _choose_temperature(rules: SamplingRules, seat: RoleBinding) -> float:
    """As in play without a program: greedy for all roles, or the role's own."""
    return rules.temperature if seat.temperature is None or rules.temperature == 0 else seat.temperature


def serve_seat(
    seat: RoleBinding, engine: Generator, version: PolicyVersion, *, temperature: float, chooses: bool = False
) -> ServedPolicy:
    """A role as agents find it. `temperature` is that of roles without one of their own. Raises ConfigurationError."""
    tokenizer = engine.tokenizer
    if not isinstance(tokenizer, HuggingFaceTokenizer):
        raise ConfigurationError(
            f"policies.{seat.policy}: it is behind an API; a program's answers are sampled from a policy of one's own"
        )

    def encode_choice(text: str) -> tuple[int, ...]:
        return (*tokenizer.encode(text), tokenizer.end_token)

    return ServedPolicy(
        policy=seat.policy,
        version=version,
        encoder=make_encoder(tokenizer, seat.prompt_format, seat.chat_template_arguments),
        show_tokens=tokenizer.decode_with_specials,
        max_new_tokens=seat.longest_answer,
        temperature=temperature if seat.temperature is None else seat.temperature,
        stop=seat.stop,
        is_special=tokenizer.is_special,
        encode_choice=encode_choice if chooses else None,
    )
