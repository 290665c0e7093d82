"""The options of the math environment."""

from typing import Self

from pydantic import Field, model_validator

from components.environments.base import Split
from components.environments.math.layouts import DatasetName
from components.environments.math.normalization import MAX_FINAL_CHARACTERS
from components.environments.math.procedural import LEVELS, NUM_LEVELS, Generator
from components.environments.shared.dataset_rows import DatasetSource
from components.frozen import Settings

_ARITHMETIC: tuple[Generator, ...] = ("arithmetic",)


class MathOptions(Settings):
    """The source and format of problems, and the lengths of answers."""

    dataset: DatasetName = "procedural"
    """procedural, polaris, dapo_math, aime_past, aime24, aime25, olympiadbench, gsm8k, or custom, for both splits.
    custom: a JSONL file of `question` and `answer` at train_source, divided by content where test_source names no other."""
    train: DatasetName | None = None
    """Another dataset for the train split."""
    test: DatasetName | None = None
    """Another dataset for the test split."""
    train_source: DatasetSource | None = None
    """The source of the train split, if not the default: a file, a folder or another hub name, in the dataset's own columns."""
    test_source: DatasetSource | None = None
    """The same for the test split."""
    generators: tuple[Generator, ...] = Field(_ARITHMETIC, min_length=1)
    """procedural: the generators to draw from; all but arithmetic need reasoning-gym."""
    level: int = Field(0, ge=0, lt=NUM_LEVELS)
    """arithmetic: 0 has three numbers up to 20, 1 four up to 99 and brackets, 2 also // and %, 3 eight numbers."""
    prose: bool = False
    """arithmetic alone: whole sentences, as in every other problem, instead of one short line for tiny models."""
    max_program_characters: int = Field(1500, ge=20, le=20_000)
    max_answer_characters: int = Field(200, ge=1, le=MAX_FINAL_CHARACTERS)
    max_output_characters: int = Field(500, ge=20, le=4000)
    """How much of the end of a program's output the reasoner is shown."""

    @model_validator(mode="after")
    def _sources_have_datasets(self) -> Self:
        for split in ("train", "test"):
            if self.source(split) is not None and self.dataset_of(split) == "procedural":
                raise ValueError(
                    f"{split}_source is given for procedural problems; name its layout in {split}, as custom or gsm8k"
                )
            if self.source(split) is None and self.dataset_of(split) == "custom":
                raise ValueError(f"{split}_source: put your own questions in a file and name it, as mine.jsonl")
        return self

    def dataset_of(self, split: Split) -> DatasetName:
        """The dataset of `split`."""
        return (self.train if split == "train" else self.test) or self.dataset

    def source(self, split: Split) -> DatasetSource | None:
        """The configured source of `split`; a single custom file serves both."""
        return self.train_source if self.source_field(split) == "train_source" else self.test_source

    def source_field(self, split: Split) -> str:
        """The option that names the source of `split`: train_source or test_source."""
        given = {"train": self.train_source, "test": self.test_source}
        other: Split = "train" if split == "test" else "test"
        is_custom = self.dataset_of("train") == self.dataset_of("test") == "custom"
        serves_both = is_custom and given[split] is None and given[other] is not None
        return f"{other if serves_both else split}_source"

    @property
    def is_compact(self) -> bool:
        """Whether every problem is one short line: arithmetic without prose."""
        drawn = {self.dataset_of("train"), self.dataset_of("test")}
        return drawn == {"procedural"} and self.generators == _ARITHMETIC and not self.prose

    @property
    def max_answer_width(self) -> int:
        """The maximum length of a program, in characters."""
        return len("print()") + LEVELS[self.level].max_characters if self.is_compact else self.max_program_characters
