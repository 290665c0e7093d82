"""The options of `search`."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from components.config.types import Address
from components.environments.search.observations import REASONER
from components.environments.search.sizes import SIZES_BY_LEVEL, Sizes
from components.environments.shared.dataset_rows import DataFile, DatasetSource
from components.frozen import Settings
from components.turn_order import TurnOrder

DatasetName = Literal["procedural", "hotpotqa", "2wiki", "musique", "bamboogle", "nq"]

_WIKI = "framolfese/2WikiMultihopQA"
_FLASHRAG = "RUC-NLPIR/FlashRAG_datasets"
USUAL_COPIES: Mapping[tuple[str, str], DatasetSource] = {
    ("hotpotqa", "train"): DatasetSource(path="hotpotqa/hotpot_qa", name="distractor", split="train"),
    ("hotpotqa", "test"): DatasetSource(path="hotpotqa/hotpot_qa", name="distractor", split="validation"),
    ("2wiki", "train"): DatasetSource(path=_WIKI, split="train"),
    ("2wiki", "test"): DatasetSource(path=_WIKI, split="validation"),
    ("musique", "train"): DatasetSource(path="dgslibisey/MuSiQue", split="train"),
    ("musique", "test"): DatasetSource(path="dgslibisey/MuSiQue", split="validation"),
    ("bamboogle", "test"): DatasetSource(path="chiayewken/bamboogle", split="test"),
    ("nq", "train"): DatasetSource(path=_FLASHRAG, name="nq", split="train"),
    ("nq", "test"): DatasetSource(path=_FLASHRAG, name="nq", split="test"),
}
"""Dataset and split -> its copy on the hub. Where the test split has no labels, the validation split serves as test."""


class SearchOptions(Settings):
    """The questions of `search`, their passages and retriever, and how much is shown."""

    dataset: DatasetName = "procedural"
    """procedural: an invented world. The others are public datasets."""
    test_dataset: DatasetName | None = None
    """The dataset of the test split; None: `dataset`. Bamboogle has only test questions."""
    train: DatasetSource | None = None
    """Another copy of the train questions (a hub name or a local file); None: the usual one."""
    test: DatasetSource | None = None
    """Another copy of the test questions."""
    level: int | None = Field(None, ge=0, le=2)
    """Default sizes: 0 for a character-level model, 1 for a small language model, 2 for real passages. None: 0 for procedural
    questions, 2 for datasets."""
    num_reasoner_turns: int | None = Field(None, ge=1)
    """How often the reasoner acts in an episode: asking in its last action earns nothing. None: in a run, as
    environment.max_turns and turn_order say."""
    world_seed: int = 0
    """Seed of the invented world's names and facts."""
    corpus: Annotated[str, DataFile()] | None = None
    """A local .jsonl file of passages to search, instead of those that come with the questions."""
    retriever_url: Address | None = None
    """The endpoint of a running retriever, for example `http://127.0.0.1:8000/retrieve`."""
    retriever_corpus: str = ""
    """The name of that retriever's corpus. Recorded answers are keyed by it: change it whenever the corpus changes."""
    retriever_timeout_seconds: float = Field(30.0, gt=0.0)
    """Limit of one request to the retriever."""
    num_passages: int | None = Field(None, ge=1, le=20)
    """Passages per query; None: the level's number, as for all fields below."""
    num_lines: int | None = Field(None, ge=1, le=10)
    """Queries, notes or sub-questions in one answer."""
    num_sub_questions: int | None = Field(None, ge=1, le=20)
    """Sub-questions of one episode."""
    line_characters: int | None = Field(None, ge=8, le=1000)
    """Limit of one query, note, sub-question or final answer."""
    question_characters: int | None = Field(None, ge=20, le=4000)
    """Limit of the question as shown; the rest is cut."""
    passage_characters: int | None = Field(None, ge=20, le=10_000)
    """Limit of one passage as shown; the rest is cut."""
    evidence_characters: int | None = Field(None, ge=40, le=100_000)
    """Limit of all passages shown, the newest first."""
    ascii_only: bool | None = None
    """Show only printable ASCII, as a character-level model needs; gold answers then also count without accents."""

    @model_validator(mode="after")
    def _consistent(self) -> "SearchOptions":
        if self.corpus is not None and self.retriever_url is not None:
            raise ValueError("corpus and retriever_url: both name where to search; set one of them")
        for split, source in (("train", self.train), ("test", self.test)):
            if source is not None and self.dataset_of(split) == "procedural":
                raise ValueError(
                    f"{split}: procedural questions are not read from a file; set dataset to the file's layout"
                )
        if "procedural" in {self.dataset, self.dataset_of("test")} and self.dataset != self.dataset_of("test"):
            raise ValueError("test_dataset: an invented world shares no corpus with a dataset; use one of the two")
        return self

    def dataset_of(self, split: str) -> DatasetName:
        """The dataset of the questions of `split`."""
        return self.test_dataset or self.dataset if split == "test" else self.dataset

    def ending_after(self, max_turns: int, turn_order: TurnOrder | None) -> Self:
        """These options for episodes of `max_turns` turns, unless the number of the reasoner's actions is set."""
        if self.num_reasoner_turns is not None:
            return self
        acting = [
            role for entry in turn_order or (REASONER,) for role in ((entry,) if isinstance(entry, str) else entry)
        ]
        return self.model_copy(update={"num_reasoner_turns": max_turns * max(1, acting.count(REASONER))})

    @property
    def chosen_level(self) -> int:
        """`level`, or its default for the dataset."""
        if self.level is not None:
            return self.level
        return 0 if self.dataset == "procedural" else 2

    @property
    def sizes(self) -> Sizes:
        """The level's sizes with the fields that were set."""
        given = self.model_dump(include=set(Sizes.model_fields), exclude_none=True)
        return SIZES_BY_LEVEL[self.chosen_level].model_copy(update=given)
