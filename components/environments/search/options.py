"""The options of `search`: which questions, which passages, which retriever, and how much is shown."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from components.artifacts.refs import Frozen
from components.config.names import Address
from components.environments.search.sizes import SIZES_BY_LEVEL, Sizes
from components.environments.shared.dataset_rows import DatasetSource

DatasetName = Literal["procedural", "hotpotqa", "2wiki", "musique", "bamboogle", "nq"]
Origin = tuple[str, str]
"""Data set and split, as one argument."""

_WIKI = "framolfese/2WikiMultihopQA"
_FLASHRAG = "RUC-NLPIR/FlashRAG_datasets"
USUAL_COPIES: Mapping[Origin, DatasetSource] = {
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
"""Where the questions of a data set are found on the hub; the labelled split nearest to a test split serves as one."""


class SearchOptions(Frozen):
    """What a search problem looks like and who answers its queries."""

    dataset: DatasetName = "procedural"
    """procedural invents its world; the others are data sets of the field."""
    test_dataset: DatasetName | None = None
    """The data set of the test split; None takes `dataset`. Bamboogle has questions for tests alone."""
    train: DatasetSource | None = None
    """Another copy of the train questions (a hub name or a local file); None takes the usual one."""
    test: DatasetSource | None = None
    """Another copy of the test questions."""
    level: int | None = Field(None, ge=0, le=2)
    """How large things are: 0 fits a model of characters, 1 a small language model, 2 real passages. None: 0 for procedural
    questions, 2 for data sets."""
    world_seed: int = 0
    """Which invented world; another number gives other names and facts."""
    corpus: str | None = None
    """A local .jsonl file of passages to search, instead of those that came with the questions."""
    retriever_url: Address | None = None
    """The endpoint of a running retriever, as `http://127.0.0.1:8000/retrieve`."""
    retriever_corpus: str = ""
    """Which corpus that retriever serves. Answers are recorded under it: change it whenever the corpus changes."""
    retriever_timeout_seconds: float = Field(30.0, gt=0.0)
    """How long one attempt may wait for the retriever."""
    num_passages: int | None = Field(None, ge=1, le=20)
    """Passages that one query brings; None takes the level's number, as for all below."""
    num_lines: int | None = Field(None, ge=1, le=10)
    """Queries, notes or sub-questions in one answer."""
    num_sub_questions: int | None = Field(None, ge=1, le=20)
    """Sub-questions of one episode."""
    line_characters: int | None = Field(None, ge=8, le=1000)
    """Of one query, note, sub-question or final answer."""
    question_characters: int | None = Field(None, ge=20, le=4000)
    """Of the question as it is shown; the rest is cut."""
    passage_characters: int | None = Field(None, ge=20, le=10_000)
    """Of one passage as it is shown; the rest is cut."""
    evidence_characters: int | None = Field(None, ge=40, le=100_000)
    """Of all passages that are shown, the newest first."""
    ascii_only: bool | None = None
    """Show printable ASCII alone, as a model of characters needs; gold answers then also count without their accents."""

    @model_validator(mode="after")
    def _consistent(self) -> "SearchOptions":
        if self.corpus is not None and self.retriever_url is not None:
            raise ValueError("corpus and retriever_url: both say where to search; give one of them")
        for split, source in (("train", self.train), ("test", self.test)):
            if source is not None and self.dataset_of(split) == "procedural":
                raise ValueError(f"{split}: procedural questions come from no file; name the file's layout as dataset")
        if "procedural" in {self.dataset, self.dataset_of("test")} and self.dataset != self.dataset_of("test"):
            raise ValueError("test_dataset: an invented world shares no corpus with a data set; use one of the two")
        return self

    def dataset_of(self, split: str) -> DatasetName:
        """The data set that the questions of `split` belong to."""
        return self.test_dataset or self.dataset if split == "test" else self.dataset

    @property
    def chosen_level(self) -> int:
        """The level in force."""
        if self.level is not None:
            return self.level
        return 0 if self.dataset == "procedural" else 2

    @property
    def sizes(self) -> Sizes:
        """The level's sizes with what was set by hand."""
        given = self.model_dump(include=set(Sizes.model_fields), exclude_none=True)
        return SIZES_BY_LEVEL[self.chosen_level].model_copy(update=given)
