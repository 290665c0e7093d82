"""The environment as TRL's trainer meets it: prompts as text, and a reward function."""

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from benchmarks.versus_trl.task import family_of, problems
from components.config import RunConfig
from components.environments.registry import family_options
from components.models.tokenizer import HuggingFaceTokenizer
from components.rewards.rubric import rubric_for
from components.rollout.prompts import encode_observation
from components.rollout.router import RoleBinding, bind_roles


def seat_of(config: RunConfig, role: str) -> RoleBinding:
    """How `role` is asked, and how long its answers may be."""
    family = family_of(config)
    options = family_options(config.environment.name, config.environment.options)
    return bind_roles(config, max_action_characters=family.max_action_characters(options))[role]


class Referee:
    """The environment's reward as TRL calls it, and what it saw."""

    __name__ = "reward"

    def __init__(self, config: RunConfig, role: str, model_folder: Path) -> None:
        self._config = config
        self._role = role
        self._family = family_of(config)
        self._rubric = rubric_for(self._family, config.rewards)
        self._problems = problems(config)
        self._model_folder = model_folder
        self.success_rates: list[float] = []
        self.num_tokens: list[int] = []

    def prompts(self) -> list[dict[str, Any]]:
        """One row a problem: what the agent sees, and the problem's number.

        TRL turns the text into the same tokens that Troupe's engine is given, which is checked.
        """
        ours, theirs = (
            HuggingFaceTokenizer.from_folder(self._model_folder),
            AutoTokenizer.from_pretrained(self._model_folder),
        )
        seat = seat_of(self._config, self._role)
        rows = []
        for number, problem in enumerate(self._problems):
            observation = seat.apply_prompt(self._family.build(problem).observe(self._role))
            tokens = encode_observation(observation, ours, seat.prompt_format, seat.chat_template_arguments)
            text = observation.state if seat.prompt_format == "compact" else ours.decode_with_specials(tokens)
            assert tuple(theirs(text)["input_ids"]) == tokens, f"{text!r} has other tokens than {tokens}"
            rows.append({"prompt": text, "number": number})
        return rows

    def __call__(
        self, completions: list[str], completion_ids: list[list[int]], number: list[int], **_: Any
    ) -> list[float]:
        outcomes = [
            self._family.build(self._problems[index]).apply(self._role, text)
            for index, text in zip(number, completions, strict=True)
        ]
        self.success_rates.append(sum(outcome.solves for outcome in outcomes) / len(outcomes))
        self.num_tokens.append(sum(len(tokens) for tokens in completion_ids))
        return [self._rubric.reward(outcome) for outcome in outcomes]
