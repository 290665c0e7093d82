"""Questions of one's own: a JSONL file of `{"question": ..., "answer": ...}`."""

from typing import Annotated

from pydantic import Field, StrictFloat, StrictInt, StrictStr, field_validator

from components.environments.math.spelling import MAX_FINAL_CHARACTERS
from components.environments.own_rows import OwnRow

MAX_STATEMENT_CHARACTERS = 20_000


class OwnQuestion(OwnRow):
    """One line: a question and its final answer alone, without the way to it.

    **Example** `{"question": "What is half of 14?", "answer": 7}`.
    """

    question: Annotated[str, Field(max_length=MAX_STATEMENT_CHARACTERS)]
    answer: StrictStr | StrictInt | StrictFloat

    @field_validator("question")
    @classmethod
    def _asks_something(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("empty")
        return value

    @field_validator("answer")
    @classmethod
    def _is_a_final_answer(cls, value: str | int | float) -> str:
        answer = " ".join(str(value).split())
        if not answer:
            raise ValueError("empty")
        if len(answer) > MAX_FINAL_CHARACTERS:
            raise ValueError(
                f"{len(answer)} characters, of at most {MAX_FINAL_CHARACTERS}; write the final answer alone, not the way to it"
            )
        return answer
