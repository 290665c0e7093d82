"""Data of one's own: a JSONL file of questions or of programming problems; mistakes are told with file, line and field."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from components.environments.code.problem import Case, CodeProblem
from components.environments.registry import family, family_options
from components.errors import ConfigurationError

MATH, CODE = family("math"), family("code")


def write_rows(folder: Path, rows: list[Any], name: str = "mine.jsonl") -> dict[str, str]:
    """The source of a file with these rows, an empty line between each two; text is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / name).write_text("\n\n".join(lines))
    return {"path": str(folder / name)}


def questions(num: int) -> list[dict[str, Any]]:
    return [{"question": f"What is {n} + 1?", "answer": n + 1, "source": "me"} for n in range(num)]


def read_statements(split: Any, num: int, **options: Any) -> dict[str, str]:
    """Statement -> answer of the first problems of a split."""
    checked = family_options("math", {"dataset": "custom", **options})
    payloads = [MATH.problem(checked, split=split, index=index, seed=0).payload for index in range(num)]
    return {payload["statement"]: payload["answer"] for payload in payloads}


def test_one_file_of_questions_serves_both_splits_which_share_none(tmp_path: Path) -> None:
    source = write_rows(tmp_path, questions(40))
    train, test = (read_statements(split, 40, train_source=source) for split in ("train", "test"))
    assert {**train, **test} == {row["question"]: str(row["answer"]) for row in questions(40)}
    assert not train.keys() & test.keys()
    assert len(train) > len(test) > 0


def test_a_question_of_the_test_file_is_never_trained_on(tmp_path: Path) -> None:
    train, test = write_rows(tmp_path, questions(6), "a.jsonl"), write_rows(tmp_path, questions(3), "b.jsonl")
    assert len(read_statements("test", 3, train_source=train, test_source=test)) == 3
    assert set(read_statements("train", 3, train_source=train, test_source=test)) == {
        f"What is {n} + 1?" for n in (3, 4, 5)
    }


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions(40)), encoding="utf-8-sig")
    source = {"path": str(tmp_path / "mine.jsonl")}
    assert (
        len(read_statements("train", 40, train_source=source)) + len(read_statements("test", 40, train_source=source))
        == 40
    )


def test_rows_that_contradict_each_other_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def read_warnings() -> list[str]:
        return [message for message in caplog.messages if "rows that ask the same have different answers" in message]

    read_statements("train", 4, train_source=write_rows(tmp_path, [*questions(20), *questions(20)], "twice.jsonl"))
    make_code_problem(write_rows(tmp_path, [*programs(9), *programs(9)], "programs.jsonl"))
    assert not read_warnings()
    read_statements(
        "train", 4, train_source=write_rows(tmp_path, [*questions(20), {"question": "What is 3 + 1?", "answer": 5}])
    )
    assert re.search(r"mine\.jsonl': rows .* \(1\): 'What is 3 \+ 1\?' has '4' and '5'", read_warnings()[0])
    caplog.clear()
    wrong = {**programs(1)[0], "tests": [{"input": "0", "output": "7"}]}
    make_code_problem(write_rows(tmp_path, [*programs(9), wrong], "other.jsonl"))
    assert "other.jsonl" in read_warnings()[0]


def test_answers_are_text_or_numbers(tmp_path: Path) -> None:
    answers = {"Half of 1?": 0.5, "Solve it.": "\\frac{1}{2}", "Who?": "  Ann\n Lee "}
    rows = [{"question": question, "answer": answer} for question, answer in answers.items()]
    other = write_rows(tmp_path, questions(1), "other.jsonl")
    found = read_statements("train", 3, train_source=write_rows(tmp_path, rows), test_source=other)
    assert found == {"Half of 1?": "0.5", "Solve it.": "\\frac{1}{2}", "Who?": "Ann Lee"}


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"question": "x?"}, r"answer: required and missing; the row has 'question'$"),
        ({"questions": "x?", "answer": 1}, r"question: required and missing; the row has 'questions', 'answer'"),
        ({"question": "x?", "answer": None}, r"answer: NoneType instead of text or a number"),
        ({"question": "x?", "answer": True}, r"answer: bool instead of text or a number"),
        ({"question": "x?", "answer": " "}, r"answer: empty"),
        ({"question": " ", "answer": 1}, r"question: empty"),
        (
            {"question": "x?", "answer": "1" * 401},
            r"answer: 401 characters, of at most 400; write the final answer alone",
        ),
        ([1, 2], r"list instead of an object"),
        ("{'question': 1}", r"no JSON \(Expecting property name"),
        ('{"question": "x?", "answer": NaN}', r"answer: nan is no answer"),
        ("[" * 100_000, r"no JSON"),
    ],
)
def test_a_wrong_row_is_told_with_file_line_and_field(tmp_path: Path, row: Any, told: str) -> None:
    source = write_rows(tmp_path, [*questions(2), row, *questions(2)])
    with pytest.raises(ConfigurationError, match=rf"train_source\.path '.*mine\.jsonl', line 5: {told}") as caught:
        read_statements("train", 1, train_source=source)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("mine.json", b"[]", r"must be a \.jsonl file"),
        ("mine.jsonl", b"", r"no rows"),
        ("mine.jsonl", b"\n \n", r"no rows"),
        ("mine.jsonl", b"\xff\xfe", r"not UTF-8 text"),
        ("mine.jsonl", None, r"No such file or directory; correct the path"),
    ],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, name: str, content: bytes | None, told: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=rf"train_source\.path '.*{name}': {told}"):
        read_statements("train", 1, train_source={"path": str(tmp_path / name)})


def test_own_data_needs_its_file() -> None:
    for environment, told in (
        ("math", r"train_source: put your own questions"),
        ("code", r"source: put your own problems"),
    ):
        options = {"dataset": "custom"}
        with pytest.raises(ConfigurationError, match=told):
            CODE.problem(family_options(environment, options), split="train", index=0, seed=0)
    with pytest.raises(ConfigurationError, match="leave name, split and revision out"):
        read_statements("train", 1, train_source={"path": "mine.jsonl", "split": "train"})


def programs(num: int) -> list[dict[str, Any]]:
    tests = [{"input": str(n), "output": str(n)} for n in range(4)]
    return [{"prompt": f"Problem {number}: print the input.", "tests": tests} for number in range(num)]


def make_code_problem(source: dict[str, str], split: Any = "train", index: int = 0, **options: Any) -> Any:
    checked = family_options("code", {"dataset": "custom", "source": source, "num_visible_tests": 1, **options})
    return CodeProblem.model_validate(CODE.problem(checked, split=split, index=index, seed=0).payload)


def test_programs_are_tested_by_what_they_print(tmp_path: Path) -> None:
    row = {**programs(1)[0], "solution": "print(input())"}
    problem = make_code_problem(
        write_rows(tmp_path, [row]), test_source=write_rows(tmp_path, programs(3)[2:], "test.jsonl")
    )
    assert (problem.kind, problem.statement, problem.reference) == (
        "stdin",
        "Problem 0: print the input.",
        "print(input())\n",
    )
    assert problem.visible == (Case(given="0\n", expected="0"),)
    assert problem.hidden == tuple(Case(given=f"{n}\n", expected=str(n)) for n in (1, 2, 3))


def test_functions_are_tested_by_what_they_return_whatever_its_type(tmp_path: Path) -> None:
    tests = [{"input": [1, "a"], "output": [1, None]}, {"input": [], "output": {"x": 0.5}}]
    row = {"prompt": "Do it.", "entry": "do_it", "tests": tests}
    problem = make_code_problem(
        write_rows(tmp_path, [row]), test_source=write_rows(tmp_path, programs(1), "test.jsonl")
    )
    assert (problem.kind, problem.entry, problem.reference) == ("function", "do_it", None)
    assert problem.statement == "Do it.\nWrite the function do_it."
    assert problem.visible == (Case(given='[1, "a"]', expected="[1, null]"),)
    assert problem.hidden == (Case(given="[]", expected='{"x": 0.5}'),)


def test_one_file_of_programs_serves_both_splits_which_share_none(tmp_path: Path) -> None:
    source = write_rows(tmp_path, programs(30))
    found = [{make_code_problem(source, split, index).statement for index in range(30)} for split in ("train", "test")]
    assert not found[0] & found[1]
    assert len(found[0] | found[1]) == 30


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"tests": []}, r"tests: List should have at least 1 item"),
        ({"tests": [{"input": "1"}]}, r"tests\.0\.output: required and missing"),
        ({"tests": [{"input": "1", "output": 2}]}, r"tests\.0\.output: int instead of text; a function.*needs `entry`"),
        ({"tests": [{"input": "1", "output": " "}]}, r"tests\.0\.output: empty, so that nothing would decide"),
        ({"entry": "f"}, r"tests\.0\.input: the arguments of a function are a list"),
        ({"entry": "f(x)"}, r"entry: 'f\(x\)' is no name of a function"),
        ({"prompt": " "}, r"prompt: empty"),
    ],
)
def test_a_wrong_problem_is_told_with_file_line_and_field(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    source = write_rows(tmp_path, [*programs(1), {**programs(1)[0], **change}])
    with pytest.raises(ConfigurationError, match=rf"options\.source\.path '.*mine\.jsonl', line 3: {told}") as caught:
        make_code_problem(source)
    assert "\n" not in str(caught.value)
