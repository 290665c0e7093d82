"""Datasets in their own layouts, and that no test problem is trained on."""

import json
from pathlib import Path
from typing import Any

import pytest

from components.environments.math.layouts import LAYOUTS, Question
from components.environments.math.options import MathOptions
from components.environments.math.questions import questions_of
from components.environments.shared.dataset_rows import DatasetSource
from components.errors import ConfigurationError

AIME_2024 = "Every morning Aya goes for a $9$-kilometer-long walk. Find $\\dfrac{1}{2}$ of $x^{2} \\leq 3$."
DAPO_BEFORE = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: $Answer "
    "(without quotes) where $Answer is the answer to the problem.\n\n"
)
DAPO_AFTER = '\n\nRemember to put your answer on its own line after "Answer:".'


def dapo(problem: str, answer: str) -> dict[str, Any]:
    return {
        "data_source": "math_dapo",
        "prompt": [{"content": DAPO_BEFORE + problem + DAPO_AFTER, "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": answer, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": "9a9b6eb4"},
    }


ROWS: dict[str, list[dict[str, Any]]] = {
    "gsm8k": [
        {"question": "Natalia sold clips.", "answer": "Natalia sold 48/2 = <<48/2=24>>24 clips.\n#### 72"},
        {"question": "Weng earns $12.", "answer": "She earned 10.\n#### 1,000"},
    ],
    "polaris": [{"problem": "Find $n$.", "answer": "\\frac{1}{2}", "difficulty": "3/8"}],
    "dapo_math": [dapo("Find $a+b$.", "34"), dapo("Find $a+b$.", "34"), dapo("Find $c$.", "-2")],
    "aime_past": [
        {"ID": "1983-1", "Year": 1983, "Problem Number": 1, "Question": "Find $w$.", "Answer": "060", "Part": None},
        {"ID": "2024-I-1", "Year": 2024, "Problem Number": 1, "Question": "Find $v$.", "Answer": "204", "Part": "I"},
    ],
    "aime24": [{"ID": "2024-I-1", "Problem": AIME_2024, "Solution": "...", "Answer": 204}],
    "aime25": [{"id": "0", "problem": "Find bases.", "answer": "70", "solution": "...", "url": "u", "year": 2025}],
    "olympiadbench": [
        {
            "id": 1,
            "question": "Find all $x$.",
            "solution": ["..."],
            "final_answer": ["$2$, $\\sqrt{3}$"],
            "context": None,
            "is_multiple_answer": True,
            "unit": None,
            "answer_type": "Numerical",
            "error": None,
        },
        {
            "id": 2,
            "question": "Prove it.",
            "solution": ["..."],
            "final_answer": [],
            "context": None,
            "is_multiple_answer": False,
            "unit": None,
            "answer_type": None,
            "error": None,
        },
    ],
    "custom": [{"question": "What is half of 14?", "answer": 7, "by": "Ann"}],
}
READ = {
    "gsm8k": [("Natalia sold clips.", "72"), ("Weng earns $12.", "1,000")],
    "polaris": [("Find $n$.", "\\frac{1}{2}")],
    "dapo_math": [("Find $a+b$.", "34"), ("Find $c$.", "-2")],
    "aime_past": [("Find $w$.", "060"), ("Find $v$.", "204")],
    "aime24": [(AIME_2024, "204")],
    "aime25": [("Find bases.", "70")],
    "olympiadbench": [("Find all $x$.", "$2$, $\\sqrt{3}$")],
    "custom": [("What is half of 14?", "7")],
}


def test_the_one_answer_of_an_own_row_is_not_taken_for_a_list_of_characters(tmp_path: Path) -> None:
    rows = [{"question": "Find $n$.", "final_answer": "42"}]
    options = MathOptions(test="olympiadbench", test_source=store_rows(tmp_path, "one", rows))
    assert [question.answer for question in questions_of(options, "test")] == ["42"]


def store_rows(folder: Path, name: str, rows: list[dict[str, Any]], stem: str = "rows") -> DatasetSource:
    path = folder / f"{name}-{stem}.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return DatasetSource(path=str(path))


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_a_layout_is_read(tmp_path: Path, name: str) -> None:
    options = MathOptions(test=name, test_source=store_rows(tmp_path, name, ROWS[name]))  # type: ignore[arg-type]
    read = questions_of(options, "test")
    assert [(question.statement, question.answer) for question in read] == READ[name]


def test_parquet_is_read_like_lines(tmp_path: Path) -> None:
    from pyarrow import Table, parquet

    parquet.write_table(Table.from_pylist(ROWS["dapo_math"]), tmp_path / "dapo.parquet")
    options = MathOptions(test="dapo_math", test_source=DatasetSource(path=str(tmp_path / "dapo.parquet")))
    assert [question.statement for question in questions_of(options, "test")] == ["Find $a+b$.", "Find $c$."]


def test_a_test_problem_in_another_spelling_is_no_train_problem(tmp_path: Path) -> None:
    respelled = "every morning Aya goes for a \\(9\\)-kilometer-long  walk; find \\(\\frac{1}{2}\\) of \\(x^2\\le3\\)"
    train = [dapo(respelled, "204"), dapo("Find $c$.", "-2"), dapo("find \\(c\\)", "-2")]
    options = MathOptions(
        train="dapo_math",
        test="aime24",
        train_source=store_rows(tmp_path, "dapo", train),
        test_source=store_rows(tmp_path, "aime24", ROWS["aime24"]),
    )
    read = questions_of(options, "train")
    assert [question.statement for question in read] == ["Find $c$."]


def test_the_years_of_the_tests_are_never_trained_on(tmp_path: Path) -> None:
    options = MathOptions(train="aime_past", train_source=store_rows(tmp_path, "past", ROWS["aime_past"]))
    read = questions_of(options, "train")
    assert [question.year for question in read] == [1983]
    for name in ("aime24", "aime25"):
        refused = MathOptions(train=name, train_source=store_rows(tmp_path, name, ROWS[name]))  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=r"no question is left for the train split of 1 .*1 of the test"):
            questions_of(refused, "train")


def test_copies_that_do_not_name_their_year_are_refused_all_the_same(tmp_path: Path) -> None:
    rows = {
        "aime24": {"ID": 60, "Problem": AIME_2024, "Answer": 204},
        "aime25": {"problem": "Find bases.", "answer": "70", "year": None},
    }
    for name, row in rows.items():
        refused = MathOptions(train=name, train_source=store_rows(tmp_path, name, [row]))  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=r"no question is left .*1 of the test"):
            questions_of(refused, "train")


def test_rows_without_a_final_answer_or_a_statement_are_left_out(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        *ROWS["gsm8k"],
        {"question": "No mark?", "answer": "She has 3."},
        {"question": "Empty?", "answer": None},
        {"question": None, "answer": "#### 3"},
    ]
    read = questions_of(MathOptions(test="gsm8k", test_source=store_rows(tmp_path, "gsm8k", rows)), "test")
    assert [question.answer for question in read] == ["72", "1,000"]


def test_statements_in_other_scripts_are_told_apart() -> None:
    contents = [
        Question(statement=text, answer="1").content for text in ("\u6c42 $x^2$", "\u8bc1 $x^2$", "\u6c42 \\(x^{2}\\)")
    ]
    assert contents[0] != contents[1]
    assert contents[0] == contents[2]


def test_two_splits_of_one_source_share_no_content(tmp_path: Path) -> None:
    rows = [{"problem": f"Find ${n}+x$.", "answer": str(n), "difficulty": "1/8"} for n in range(60)]
    source = store_rows(tmp_path, "polaris", rows)
    options = MathOptions(dataset="polaris", train_source=source, test_source=source)
    train, test = (questions_of(options, split) for split in ("train", "test"))  # type: ignore[arg-type]
    assert {q.content for q in train} | {q.content for q in test} == {
        Question(statement=row["problem"], answer="").content for row in rows
    }
    assert not {q.content for q in train} & {q.content for q in test}
    assert 3 < len(test) < 25


def test_two_splits_in_two_files_are_taken_whole_but_for_what_they_share(tmp_path: Path) -> None:
    options = MathOptions(
        dataset="gsm8k",
        train_source=store_rows(tmp_path, "gsm8k", [*ROWS["gsm8k"], {"question": "C?", "answer": "#### 3"}], "train"),
        test_source=store_rows(tmp_path, "gsm8k", ROWS["gsm8k"][:1], "test"),
    )
    assert [q.statement for q in questions_of(options, "train")] == ["Weng earns $12.", "C?"]
    assert len(questions_of(options, "test")) == 1


def test_wrong_columns_are_named(tmp_path: Path) -> None:
    options = MathOptions(test="gsm8k", test_source=store_rows(tmp_path, "wrong", ROWS["polaris"]))
    with pytest.raises(
        ConfigurationError, match=r"test_source\.path .*has no column question, as gsm8k has; it has \['answer'"
    ):
        questions_of(options, "test")
    broken = MathOptions(
        test="dapo_math", test_source=store_rows(tmp_path, "broken", [{"prompt": "x", "reward_model": {}}])
    )
    with pytest.raises(ConfigurationError, match="does not have the layout"):
        questions_of(broken, "test")
