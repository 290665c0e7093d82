"""Questions of one's own: a JSONL file of `{"question": ..., "answer": ...}`."""

import math
from typing import Annotated, Any

from pydantic import Field, field_validator

from components.environments.math.spelling import MAX_FINAL_CHARACTERS
from components.environments.shared.own_rows import OwnRow

MAX_STATEMENT_CHARACTERS = 20_000


class OwnQuestion(OwnRow):
    """One line: a question and its final answer, text or a number, without the solution.

    **Example** `{"question": "What is half of 14?", "answer": 7}`.
    """

    question: Annotated[str, Field(max_length=MAX_STATEMENT_CHARACTERS)]
    answer: str

    @field_validator("question")
    @classmethod
    def _asks_something(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("empty")
        return value

    @field_validator("answer", mode="before")
    @classmethod
    def _is_a_final_answer(cls, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"{type(value).__name__} instead of text or a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is no answer")
        answer = " ".join(str(value).split())
        if not answer:
            raise ValueError("empty")
        if len(answer) > MAX_FINAL_CHARACTERS:
            raise ValueError(
                f"{len(answer)} characters, of at most {MAX_FINAL_CHARACTERS}; write the final answer alone, not the way to it"
            )
        return answer
