"""How long prompts are, and whether these and their answers fit the models, before any is loaded."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from components.config import PolicyConfig, RunConfig
from components.environments.environment import Environment
from components.errors import ArtifactCorrupt, ConfigurationError
from components.models.base_checks import find_cached_hub_folder
from components.rollout.prompts import encode_observation
from components.rollout.router import RoleBinding
from components.schema import Observation
from components.session.scenario import Scenario

if TYPE_CHECKING:
    from components.models.tokenizer import HuggingFaceTokenizer

_NUM_PROBLEMS_READ = 8
"""Problems whose first prompts are counted."""
_CHARACTERS_PER_TOKEN = 3
"""Of a pretrained model, in prose with numbers and code: rather too few than too many."""


def check_prompts(scenario: Scenario) -> None:
    """Check the roles of chat models, and those with a prompt, a thinking budget or stop strings of their own.

    Their prompts of the first problem are made with the model's tokenizer, if that is on this machine; other models are checked
    as they are loaded. Raises ConfigurationError, also where a prompt and its longest answer exceed the model's positions.
    """
    config = scenario.config
    for role, seat in scenario.seats.items():
        policy = config.policies[seat.policy]
        if policy.base == "tiny" and policy.api is None:
            _check_spelling(role, seat, scenario.family.alphabet(scenario.options))
        elif policy.api is None and (
            policy.prompt_format == "chat" or seat.prompt or seat.max_thinking_tokens or seat.stop
        ):
            folder = _folder_of(policy)
            if folder is not None:
                _check_against(folder, role, seat, scenario)


def warnings_of_instructions(scenario: Scenario) -> Iterator[str]:
    """One line, if agents of chat policies have neither instructions of their environment nor a prompt."""
    config, environment = scenario.config, scenario.family.environment
    if scenario.family.is_played_by_programs:
        return  # the program says what is wanted
    silent = [
        role
        for role, seat in scenario.seats.items()
        if config.policies[seat.policy].prompt_format == "chat"
        and seat.prompt is None
        and _tells_nothing(role, scenario)
    ]
    if silent:
        fields = " and ".join(f"agents.{role}.prompt" for role in silent)
        yield (
            f"{config.environment.name} has no instructions for {', '.join(silent)}: a chat model sees what observe() "
            f"returns, and nothing says what is wanted; set {fields}={{replace: TEXT}}, or define instructions(state, agent) "
            f"in {type(environment).__name__}; `troupe try` shows what it answers"
        )


def _tells_nothing(role: str, scenario: Scenario) -> bool:
    """Whether the environment has no instructions for `role`: none at all, or none where the role acts first."""
    family = scenario.family
    if type(family.environment).instructions is Environment.instructions:
        return True
    problem = family.problem(scenario.options, split="train", index=0, seed=scenario.config.seed)
    start = family.referee().start(problem)
    first = family.referee().next_phase(start, scenario.turn_order)
    return first is not None and role in first.agents and not family.rules.instructions(start.state, role).strip()


def _check_spelling(role: str, seat: RoleBinding, alphabet: str) -> None:
    """Of a model whose tokens are characters: whether its answers can contain the stop strings."""
    for text in seat.stop:
        if missing := sorted(set(text) - set(alphabet)):
            raise ConfigurationError(
                f"agents.{role}.stop {text!r}: the tiny model of policy {seat.policy} has no character {missing[0]!r}, so no "
                "answer holds it; remove it"
            )
        if len(text) > seat.longest_answer:
            raise ConfigurationError(
                f"agents.{role}.stop {text!r}: answers have at most {seat.longest_answer} characters, so none holds it; "
                "remove it"
            )


def _folder_of(policy: PolicyConfig) -> Path | None:
    """The folder of the policy's base; None if it is not here, or made when the run starts."""
    if policy.base == "smollm2-135m":
        return None
    folder = Path(policy.base)
    return folder if (folder / "config.json").is_file() else find_cached_hub_folder(policy.base)


def _check_against(folder: Path, role: str, seat: RoleBinding, scenario: Scenario) -> None:
    from components.generation.stop_tracking import invalid_stop_reason
    from components.models.tokenizer import HuggingFaceTokenizer

    try:
        tokenizer, positions = HuggingFaceTokenizer.from_folder(folder), _positions(folder, scenario.config)
    except (ArtifactCorrupt, OSError, json.JSONDecodeError):
        return  # a damaged folder is told with the bases, where it is known whether the run still needs it
    if reason := invalid_stop_reason(seat.stop, seat.max_thinking_tokens, tokenizer):
        raise ConfigurationError(f"agents.{role}.{reason}")
    _check_length(role, seat, scenario, tokenizer, positions)


def _positions(folder: Path, config: RunConfig) -> Mapping[str, int]:
    """What bounds the tokens of a prompt and its answer: name -> number."""
    settings = json.loads((folder / "config.json").read_bytes())
    found = settings.get("max_position_embeddings") or settings.get("text_config", {}).get("max_position_embeddings")
    bounds = {"max_position_embeddings of its model": found, **config.generation.token_bounds}
    return {name: bound for name, bound in bounds.items() if isinstance(bound, int)}


def _check_length(
    role: str, seat: RoleBinding, scenario: Scenario, tokenizer: "HuggingFaceTokenizer", positions: Mapping[str, int]
) -> None:
    observation = seat.apply_prompt(_first_observation(role, scenario))
    prompt = encode_observation(observation, tokenizer, seat.prompt_format, seat.chat_template_arguments)
    for name, most in positions.items():
        if len(prompt) + seat.longest_answer > most:
            thinking = f" after max_thinking_tokens {seat.max_thinking_tokens}" if seat.max_thinking_tokens else ""
            raise ConfigurationError(
                f"agents.{role}: its prompt of {len(prompt)} tokens and an answer of max_new_tokens {seat.max_new_tokens}"
                f"{thinking} exceed the {most} tokens of {name}; shorten them"
            )


def longest_first_prompt(scenario: Scenario) -> int:
    """The tokens of the longest prompt with which one of the first problems begins; 0 if an API alone is asked.

    Where a model's tokenizer is not on this machine, an estimate from the text.
    """
    num_problems = min(_NUM_PROBLEMS_READ, scenario.config.rollout.num_problems)
    found = [0]
    for role, seat in scenario.seats.items():
        policy = scenario.config.policies[seat.policy]
        if policy.api is None:
            num_tokens = _token_counter(seat, policy)
            found += [
                num_tokens(seat.apply_prompt(_first_observation(role, scenario, index=index)))
                for index in range(num_problems)
            ]
    return max(found)


def _token_counter(seat: RoleBinding, policy: PolicyConfig) -> Callable[[Observation], int]:
    """A function that counts the tokens of an observation as `seat` reads it."""

    def num_characters(observation: Observation) -> int:
        return len(observation.state) + (len(observation.instructions) if seat.prompt_format == "chat" else 0)

    if policy.base == "tiny":
        return num_characters
    from components.models.tokenizer import HuggingFaceTokenizer

    folder = _folder_of(policy)
    try:
        tokenizer = None if folder is None else HuggingFaceTokenizer.from_folder(folder)
    except ArtifactCorrupt:  # told with the bases, where it is known whether the run still needs it
        tokenizer = None
    if tokenizer is None:
        return lambda observation: -(-num_characters(observation) // _CHARACTERS_PER_TOKEN)
    return lambda observation: len(
        encode_observation(observation, tokenizer, seat.prompt_format, seat.chat_template_arguments)
    )


def _first_observation(role: str, scenario: Scenario, *, index: int = 0) -> Observation:
    """What `role` sees of a problem; nothing if another acts first, whose answer is not known."""
    config, family = scenario.config, scenario.family
    problem = family.problem(scenario.options, split="train", index=index, seed=config.seed)
    referee = family.referee()
    start = referee.start(problem)
    first = referee.next_phase(start, scenario.turn_order)
    if first is None or role not in first.agents:
        return Observation(instructions="", state="")
    return referee.observe(start, role)
