"""The datasets in their true column layouts, from small local files."""

import base64
import json
import logging
import pickle
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from datasets import Dataset

from components.environments.code import programs
from components.environments.code.layouts.apps import APPS
from components.environments.code.layouts.layout import MAX_EXPECTED_BYTES, MAX_GIVEN_BYTES, Unusable
from components.environments.code.layouts.livecodebench import unpack_tests
from components.environments.code.problem import Case, CodeProblem
from components.environments.code.programs import MAX_PROGRAM_CHARACTERS
from components.environments.code.tables import tables
from components.environments.registry import family, family_options
from components.environments.shared.dataset_rows import DatasetSource, columns_of, load_rows
from components.errors import ConfigurationError
from components.sandbox import protocol
from tests.components.environments.code.conftest import playthrough
from tests.costs import assert_cheap

FAMILY = family("code")
DOUBLE = "n = int(input())\nprint(2 * n)"


def write_rows(folder: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def read(options: Mapping[str, Any], index: int = 0, split: Any = "train") -> CodeProblem:
    checked = family_options("code", {"num_visible_tests": 1, **options})
    return CodeProblem.model_validate(FAMILY.problem(checked, split=split, index=index, seed=0).payload)


def over(folder: Path, dataset: str, rows: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """Options that train on a file of these rows and test on another dataset."""
    source = {"path": write_rows(folder, "rows.jsonl", rows)}
    return {"dataset": dataset, "source": source, "test_dataset": "humaneval", **more}


def every(options: Mapping[str, Any], num: int, split: Any) -> dict[str, CodeProblem]:
    problems = [read(options, index, split) for index in range(num)]
    return {problem.statement: problem for problem in problems}


def apps_row(question: str, **parts: Any) -> dict[str, Any]:
    tests = {"inputs": ["1\n", "2\n", "3\n"], "outputs": ["2\n", "4\n", "6\n"]}
    row = {
        "problem_id": 0,
        "question": question,
        "solutions": json.dumps(["print 2", f"{DOUBLE}  # longer", DOUBLE]),
        "input_output": json.dumps(tests),
        "difficulty": "introductory",
        "url": "",
        "starter_code": "",
    }
    return {**row, **parts}


def contests_row(description: str, **parts: Any) -> dict[str, Any]:
    row = {
        "name": "1_A",
        "description": description,
        "public_tests": {"input": ["1\n"], "output": ["2\n"]},
        "private_tests": {"input": ["1\n", "7\n"], "output": ["2\n", "14\n"]},
        "generated_tests": {"input": ["8\n", "9\n", "x" * 99], "output": ["16\n", "18\n", "1"]},
        "solutions": {"language": [2, 1, 3], "solution": ["int main(){}", "print 1", DOUBLE]},
        "incorrect_solutions": {"language": [3], "solution": ["print(1)"]},
        "difficulty": 7,
        "input_file": "",
        "output_file": "",
        "time_limit": {"seconds": 2, "nanos": 0},
    }
    return {**row, **parts}


def pack(tests: Sequence[Mapping[str, str]]) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def live_row(content: str, *, functional: bool, private: str | None = None) -> dict[str, Any]:
    kind = "functional" if functional else "stdin"
    shown = [{"input": "[1, 2]\n3" if functional else "1\n", "output": "6" if functional else "2\n", "testtype": kind}]
    kept = [
        {"input": "[4]\n5" if functional else "7\n", "output": "9" if functional else "14\n", "testtype": kind},
        {"input": "[]\n0" if functional else "8\n", "output": "0" if functional else "16\n", "testtype": kind},
    ]
    return {
        "question_title": "t",
        "question_content": content,
        "platform": "leetcode" if functional else "atcoder",
        "question_id": "1",
        "contest_id": "c",
        "contest_date": "2024-01-01T00:00:00",
        "starter_code": "class Solution:\n    def total(self, x: List[int], y: int) -> int:\n        "
        if functional
        else "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(shown),
        "private_test_cases": private if private is not None else pack(kept),
        "metadata": json.dumps({"func_name": "total"} if functional else {}),
    }


def test_apps_programs(tmp_path: Path) -> None:
    path = write_rows(tmp_path, "train.jsonl", [apps_row(f"Double it, number {n}.") for n in range(20)])
    problem = read({"dataset": "apps", "source": {"path": path}})
    assert problem.kind == "stdin"
    assert problem.visible == (Case(given="1\n", expected="2"),)
    assert problem.hidden == (Case(given="2\n", expected="4"), Case(given="3\n", expected="6"))
    assert problem.reference == f"{DOUBLE}\n"


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ([[1, "a"], [2, "b"], [3, "c"]], [[7], [[8]], ["x"]], ["7", "[8]", '"x"']),
        ([[1, "a"], [2, "b"], [3, "c"]], [[7, 7], [8], []], ["[7, 7]", "[8]", "[]"]),
        ([[1, "a"], [2, "b"], [3, "c"]], [7, True, None], ["7", "true", "null"]),
    ],
)
def test_apps_functions(inputs: Any, outputs: Any, expected: list[str], tmp_path: Path) -> None:
    tests = json.dumps({"fn_name": "mix", "inputs": inputs, "outputs": outputs})
    rows = [apps_row(f"Mix {n}", input_output=tests, starter_code="def mix(a, b):\n\t") for n in range(9)]
    problem = read({"dataset": "apps", "source": {"path": write_rows(tmp_path, "a.jsonl", rows)}})
    assert (problem.kind, problem.entry) == ("function", "mix")
    assert [case.expected for case in (*problem.visible, *problem.hidden)] == expected
    assert problem.visible[0].given == '[1, "a"]'
    assert problem.statement.endswith("\nWrite the function mix.\ndef mix(a, b):\n    ")
    assert "from typing import *" in problem.preamble


def test_apps_rows_without_tests_are_passed_over(tmp_path: Path) -> None:
    rows = [apps_row(f"Nothing {n}", input_output="", solutions="") for n in range(30)] + [
        apps_row(f"Double {n}", solutions="") for n in range(5)
    ]
    options = {"dataset": "apps", "source": {"path": write_rows(tmp_path, "a.jsonl", rows)}}
    found = every(options, 40, "train")
    assert found
    assert all(statement.startswith("Double") for statement in found)
    assert all(problem.reference is None for problem in found.values())


@pytest.mark.parametrize(
    "bad",
    [
        {"input_output": "{}"},
        {"input_output": "[1]"},
        {"input_output": "{"},
        {"input_output": '{"inputs": ["1", "2"], "outputs": ["1", "2"], "fn_name": "f"}'},
        {"input_output": '{"inputs": null, "outputs": null}'},
        {"input_output": '{"inputs": [[' + "1" * 5000 + '], [2]], "outputs": [1, 2], "fn_name": "f"}'},
        {"solutions": "5"},
    ],
)
def test_a_bad_row_among_good_ones_is_passed_over(bad: Mapping[str, str], tmp_path: Path) -> None:
    rows = [apps_row("Bad one.", **bad)] + [apps_row(f"Good, number {n}.") for n in range(3)]
    found = every(over(tmp_path, "apps", rows), 8, "train")
    assert {*found} == {f"Good, number {n}." for n in range(3)}


def test_contest_rows_with_uneven_columns_are_passed_over(tmp_path: Path) -> None:
    uneven = {"input": ["1\n", "7\n"], "output": ["2\n"]}
    rows = [contests_row("Bad.", private_tests=uneven), contests_row("Good.")]
    assert {*every(over(tmp_path, "code_contests", rows), 4, "train")} == {"Good."}


def test_an_empty_last_line_of_an_input_is_kept_and_makes_no_other_test(tmp_path: Path) -> None:
    """A program that reads two lines must find two, also where the second is empty."""
    tests = json.dumps({"inputs": ["a\n\n", "a\n", "b\n\n", "c"], "outputs": ["1", "1", "2", "3"]})
    problem = read(over(tmp_path, "apps", [apps_row("Count.", input_output=tests)]))
    assert [case.given for case in (*problem.visible, *problem.hidden)] == ["a\n\n", "b\n\n", "c\n"]


def test_apps_as_the_hubs_parquet_branch_holds_it(tmp_path: Path) -> None:
    """A folder for each difficulty and one for all, and no README that would name configurations."""
    for difficulty in ("all", "introductory"):
        for split in ("train", "test"):
            folder = tmp_path / difficulty / split
            folder.mkdir(parents=True)
            rows = [apps_row(f"Double it for {split}, number {n}.") for n in range(3)]
            Dataset.from_list(rows).to_parquet(folder / "0000.parquet")
    places = {
        split: place.model_copy(update={"path": str(tmp_path), "revision": None})
        for split, place in APPS.places.items()
    }
    options = {"dataset": "apps", "source": places["train"], "test_source": places["test"]}
    for split in ("train", "test"):
        assert len({read(options, index, split).statement for index in range(6)}) == 3


def test_code_contests(tmp_path: Path) -> None:
    rows = [contests_row(f"Double {n}; 1 ≤ n") for n in range(9)]
    path = write_rows(tmp_path, "c.jsonl", rows)
    options = {"dataset": "code_contests", "source": {"path": path}, "num_hidden_tests": 2, "max_test_characters": 100}
    problem = read(options)
    assert problem.visible == (Case(given="1\n", expected="2"),)
    assert problem.hidden == (Case(given="7\n", expected="14"), Case(given="8\n", expected="16"))
    assert problem.spare[0] == Case(given="9\n", expected="18")
    assert problem.reference == f"{DOUBLE}\n"
    assert problem.statement.endswith("; 1 <= n")
    file_rows = [contests_row(f"File {n}", input_file="in.txt") for n in range(9)]
    with pytest.raises(ConfigurationError, match="it reads or writes files"):
        read({"dataset": "code_contests", "source": {"path": write_rows(tmp_path, "f.jsonl", file_rows)}})


def test_livecodebench(tmp_path: Path) -> None:
    rows = [live_row(f"Total {n}", functional=True) for n in range(5)] + [
        live_row(f"Double {n}", functional=False) for n in range(5)
    ]
    options = {"dataset": "livecodebench", "source": {"path": write_rows(tmp_path, "test6.jsonl", rows)}}
    found = {**every(options, 10, "train"), **every(options, 10, "test")}
    total = next(problem for statement, problem in found.items() if statement.startswith("Total"))
    assert (total.kind, total.entry, total.reference) == ("function", "total", None)
    assert total.visible == (Case(given="[[1, 2], 3]", expected="6"),)
    assert total.hidden == (Case(given="[[4], 5]", expected="9"), Case(given="[[], 0]", expected="0"))
    assert "class Solution:" in total.statement
    double = next(problem for statement, problem in found.items() if statement.startswith("Double"))
    assert double.kind == "stdin"
    assert double.hidden == (Case(given="7\n", expected="14"), Case(given="8\n", expected="16"))
    assert len(found) == 10


def test_a_dataset_without_references_has_no_expert_and_says_so(tmp_path: Path) -> None:
    rows = [live_row(f"Double {n}", functional=False) for n in range(9)]
    options = family_options(
        "code", {"dataset": "livecodebench", "source": {"path": write_rows(tmp_path, "l.jsonl", rows)}}
    )
    env = FAMILY.build(FAMILY.problem(options, split="train", index=0, seed=0))
    assert FAMILY.expert_action(env.position, "tester")
    with pytest.raises(ConfigurationError, match="has no reference program"):
        FAMILY.expert_action(env.position, "coder")


class Bomb:
    """What a pickle may do when it is trusted."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('the pickle ran')",))


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(zlib.compress(pickle.dumps(Bomb()))).decode(),
        base64.b64encode(zlib.compress(pickle.dumps([Bomb()], protocol=0))).decode(),
        base64.b64encode(zlib.compress(pickle.dumps(Path("x")))).decode(),
        base64.b64encode(zlib.compress(pickle.dumps({"a": 1}))).decode(),
        base64.b64encode(zlib.compress(pickle.dumps("no json"))).decode(),
        base64.b64encode(zlib.compress(b"\x80\x04")).decode(),
        base64.b64encode(b"not zlib").decode(),
        "not base64!",
        "",
        "[1]",
        '{"input": 1}',
    ],
)
def test_packed_tests_can_only_be_texts(text: str) -> None:
    with pytest.raises(Unusable):
        unpack_tests(text)


def test_damaged_bytes_are_unreadable_and_nothing_worse() -> None:
    rng, good = Random(0), pickle.dumps(json.dumps([{"input": "1", "output": "2", "testtype": "stdin"}]))
    num_unusable = 0
    for _ in range(10_000):
        damaged = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            place = rng.randrange(len(damaged))
            damaged[place : place + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        try:
            unpack_tests(base64.b64encode(zlib.compress(damaged, 1)).decode())
        except Unusable:
            num_unusable += 1
    assert 5_000 < num_unusable < 10_000


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("length", [1, 300, 70_000])
def test_packed_and_plain_tests_are_read(protocol: int, length: int) -> None:
    tests = [{"input": "é" * length, "output": "2", "testtype": "stdin"}]
    text = json.dumps(tests, ensure_ascii=False)
    pickled = pickle.dumps(text, protocol=protocol)
    for content in (text.encode(), pickled):
        assert unpack_tests(base64.b64encode(zlib.compress(content)).decode()) == tests
    assert unpack_tests(text) == tests


PICKLED_BOMBS = {
    "zeros": bytes(100 << 20),
    "a text of zeros": b"\x80\x04X" + (90 << 20).to_bytes(4, "little") + bytes(90 << 20) + b"\x94.",
    "a text that is longer than the pickle": b"\x80\x04X\xff\xff\xff\xff.",
    "a text repeated from memory": b"\x80\x04]\x94(X\x01\x00\x00\x00a\x94" + b"h\x01" * 1_000_000 + b"e.",
    "a long number": b"\x80\x04\x8b\xff\xff\xff\x7f" + bytes(100) + b".",
    "a place in memory far away": b"\x80\x04Nr\xff\xff\xff\x01.",
    "lists in lists": b"\x80\x04" + b"]" * 1_000_000 + b"a" * 999_999 + b".",
    "JSON of lists": pickle.dumps("[" + "[]," * 5_000_000 + "0]"),
    "JSON in JSON": pickle.dumps("[" * 1_000_000),
}


@pytest.mark.parametrize("name", PICKLED_BOMBS)
def test_tests_that_would_fill_the_memory_are_refused_by_name(name: str) -> None:
    text = base64.b64encode(zlib.compress(PICKLED_BOMBS[name])).decode()

    def expect_refusal() -> None:
        with pytest.raises(Unusable, match=r"unreadable tests|tests of more than"):
            unpack_tests(text)

    assert_cheap([(name, expect_refusal)])


def test_no_test_problem_is_in_the_train_split(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever its case, white space and punctuation, and also from another dataset."""
    train = [
        contests_row(text) for text in ("Only here one.", "DOUBLE\n\n  *it*,  now", "Only here two.", "Only here one!")
    ]
    test = [apps_row(text) for text in ("Double it now.", "Something else.")]
    options = {
        "dataset": "code_contests",
        "source": {"path": write_rows(tmp_path, "train.jsonl", train)},
        "test_dataset": "apps",
        "test_source": {"path": write_rows(tmp_path, "test.jsonl", test)},
    }
    with caplog.at_level(logging.INFO, "troupe.environments.data"):
        trained = every(options, 20, "train")
    assert {*trained} == {"Only here one.", "Only here two."}
    assert {*every(options, 20, "test")} == {"Double it now.", "Something else."}
    assert "2 train problems, 1 dropped because the test split has them too" in caplog.text


def test_rows_that_make_no_problem_let_none_of_the_others_be_met_far_more_often(tmp_path: Path) -> None:
    rows = [apps_row(f"Bad, number {n}.", input_output="{}") for n in range(180)]
    rows += [apps_row(f"Good, number {n}.") for n in range(20)]
    options = over(tmp_path, "apps", rows)
    met = Counter(read(options, index).statement for index in range(200))
    assert len(met) == 20
    assert max(met.values()) < 20, met  # 10 on average, with a standard deviation of 3
    assert met == Counter(read(options, index).statement for index in reversed(range(200)))


def test_procedural_training_and_a_real_dataset_for_tests() -> None:
    options = {"levels": [0], "test_dataset": "humaneval"}
    assert read(options, 0, "train").statement.startswith(("Read", "Write f("))
    assert read(options, 0, "test").statement.startswith("Write the function ")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"dataset": "apps", "source": {"path": "/no/such.jsonl"}},
            r"environment\.options\.source\.path.*no such file",
        ),
        ({"dataset": "humaneval", "source": {"path": "x.jsonl"}}, "humaneval has no source"),
    ],
)
def test_what_cannot_be_read_is_explained(options: Mapping[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        read(options)


def test_a_file_in_another_layout_is_explained(tmp_path: Path) -> None:
    path = write_rows(tmp_path, "a.jsonl", [{"question": "Double it.", "answer": "x"}] * 3)
    for dataset, missing in (("apps", "input_output"), ("livecodebench", "question_content")):
        with pytest.raises(ConfigurationError, match=f"not in the layout of {dataset}.*{missing}"):
            read({"dataset": dataset, "source": {"path": path}, "test_dataset": "humaneval"})


def test_a_long_statement_is_cut_and_its_task_is_kept(tmp_path: Path) -> None:
    tests = json.dumps({"fn_name": "mix", "inputs": [[1], [2]], "outputs": [[7], [8]]})
    path = write_rows(tmp_path, "a.jsonl", [apps_row("é" + "x" * 9000, input_output=tests)])
    options = {"dataset": "apps", "source": {"path": path}, "test_dataset": "humaneval", "max_statement_characters": 50}
    assert read(options).statement == "e" + "x" * 46 + "...\nWrite the function mix.\n"


def test_all_tests_of_a_dataset_decide_under_its_authors_rule_and_limits(tmp_path: Path) -> None:
    """Public tests beyond the shown ones are among the hidden; none is dropped for its length."""
    many = {"input": [f"{n}\n" for n in range(40)], "output": [f"{2 * n}\n" for n in range(40)]}
    long = {"input": ["1 " * 200_000, "5\n"], "output": ["8 " * 200_000, "10\n"]}
    row = contests_row(
        "Double.",
        public_tests=many,
        private_tests=long,
        memory_limit_bytes=256_000_000,
        time_limit={"seconds": 1, "nanos": 5 * 10**8},
    )
    options = over(tmp_path, "code_contests", [row])
    problem = read(options)
    assert len(problem.visible) == 1
    assert len(problem.hidden) == 39 + 2
    assert max(len(case.given) for case in problem.hidden) == 400_001
    assert (problem.grader, problem.num_visible_deciding, problem.cpu_seconds, problem.memory_mib) == (
        "code_contests",
        1,
        1.5,
        244,
    )
    assert read({**options, "time_limit_factor": 4}).cpu_seconds == 6.0
    assert read({**options, "comparison": "usual"}).grader == "usual"
    assert len(read({**options, "num_hidden_tests": 7}).hidden) == 7
    unlimited = write_rows(tmp_path, "n.jsonl", [{**row, "time_limit": None, "memory_limit_bytes": 0}])
    assert read({**options, "source": {"path": unlimited}}).cpu_seconds is None


def test_apps_and_livecodebench_have_their_authors_limits(tmp_path: Path) -> None:
    apps = read(over(tmp_path, "apps", [apps_row("One.")]))
    assert (apps.grader, apps.cpu_seconds, apps.num_visible_deciding) == ("apps", 4.0, 1)
    rows = [live_row(f"Total {n}", functional=True) for n in range(9)]
    live = read({"dataset": "livecodebench", "source": {"path": write_rows(tmp_path, "l.jsonl", rows)}})
    assert (live.grader, live.cpu_seconds, live.num_visible_deciding) == ("livecodebench", 6.0, 1)


def test_a_problem_that_no_sandbox_takes_is_left_out_by_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert MAX_GIVEN_BYTES + MAX_PROGRAM_CHARACTERS * 4 <= protocol.MAX_INPUT_BYTES
    assert MAX_EXPECTED_BYTES < programs.MAX_OUTPUT_KIB << 10 == protocol.MAX_OUTPUT_KIB << 10
    huge = json.dumps({"inputs": ["1", "9" * (16 << 20)], "outputs": ["1", "2"]})
    rows = [apps_row("A huge one.", input_output=huge), *(apps_row(f"Good, number {n}.") for n in range(3))]
    options = over(tmp_path, "apps", rows)
    with caplog.at_level(logging.WARNING, "troupe.environments.data"):
        assert len(every(options, 12, "train")) == 3
    told = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert len(told) == 1
    assert re.search(r"row 0 is left out \(\d+ so far\), 'A huge one.': a test of 16777217 bytes of input", told[0])


def test_a_limit_of_characters_leaves_whole_problems_out(tmp_path: Path) -> None:
    long = json.dumps({"inputs": ["1", "2" * 200, "3"], "outputs": ["1", "2", "3"]})
    rows = [apps_row("Long.", input_output=long), apps_row("Short.")]
    options = over(tmp_path, "apps", rows)
    assert {*every(options, 6, "train")} == {"Long.", "Short."}
    assert {*every({**options, "max_test_characters": 100}, 6, "train")} == {"Short."}


def make_dated_row(day: str) -> dict[str, Any]:
    return {**live_row(f"Double on {day}", functional=False), "contest_date": f"{day}T00:00:00"}


def test_a_window_of_contest_days(tmp_path: Path) -> None:
    days = ("2024-08-01", "2024-09-30", "2024-10-01", "2025-01-31", "2025-02-01")
    path = write_rows(tmp_path, "test6.jsonl", [make_dated_row(day) for day in days])
    options = {
        "dataset": "humaneval",
        "test_dataset": "livecodebench",
        "test_source": {"path": path},
        "from_date": "2024-09-30",
        "to_date": "2025-01-31",
    }
    found = every(options, 9, "test")
    assert {statement.removeprefix("Double on ") for statement in found} == {*days[1:4]}
    with pytest.raises(ConfigurationError, match="no problem of the test split"):
        read({**options, "from_date": "2026-01-01", "to_date": None}, split="test")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"dataset": "livecodebench", "release": "v7"}, "release"),
        ({"dataset": "livecodebench", "release": "release_v6", "from_date": "2025-13-01"}, "from_date"),
        ({"dataset": "livecodebench", "release": "v6_v4"}, "write the earlier version first"),
        ({"dataset": "livecodebench", "from_date": "2025-02-01", "to_date": "2025-01-01"}, "is after to_date"),
        ({"dataset": "apps", "release": "v6"}, "only livecodebench has releases"),
    ],
)
def test_releases_and_windows_are_checked(options: Mapping[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        family_options("code", options)


def test_a_release_is_a_configuration_of_the_dataset_and_not_of_a_file(tmp_path: Path) -> None:
    def source_of(**options: Any) -> Any:
        checked: Any = family_options("code", {"dataset": "livecodebench", **options})
        return tables(checked)["test"].source

    assert source_of().name == "release_v6"
    assert source_of(release="v6").name == "v6"
    assert source_of(release="v4_v6", source={"path": str(tmp_path), "split": "test"}).name == "v4_v6"
    with pytest.raises(ConfigurationError, match="whose problems are its own"):
        source_of(release="v6", source={"path": write_rows(tmp_path, "test6.jsonl", [make_dated_row("2025-01-01")])})


def test_the_pass_over_statements_reads_their_column_alone(tmp_path: Path) -> None:
    rows = [contests_row(f"Double {n}.") for n in range(5)]
    Dataset.from_list(rows).to_parquet(tmp_path / "c.parquet")
    loaded: Any = load_rows(DatasetSource(path=str(tmp_path / "c.parquet")), field="source")
    assert [{**row} for row in columns_of(loaded, ("description", "contest_date"))] == [
        {"description": row["description"]} for row in rows
    ]
    read_columns = []
    original = loaded._dataset
    loaded._dataset = _Recorded(original, read_columns)
    assert len([*columns_of(loaded, ("description",))]) == 5
    assert read_columns == [["description"]]


class _Recorded:
    """A dataset that only lets itself be narrowed, and says to what."""

    def __init__(self, dataset: Any, narrowed: list[list[str]]) -> None:
        self._dataset, self._narrowed = dataset, narrowed

    @property
    def column_names(self) -> list[str]:
        return list(self._dataset.column_names)

    def select_columns(self, names: list[str]) -> Any:
        self._narrowed.append(names)
        return self._dataset.select_columns(names)


def test_own_problems_may_have_a_checker_and_limits(tmp_path: Path) -> None:
    tests = [{"input": str(n), "output": f"0 {n}"} for n in range(4)]
    row = {"prompt": "Split.", "tests": tests, "checker": "assert open('output').read()", "time_limit_seconds": 3}
    options = {"dataset": "custom", "test_dataset": "humaneval"}
    problem = read({**options, "source": {"path": write_rows(tmp_path, "o.jsonl", [{**row, "memory_limit_mib": 64}])}})
    assert (problem.checker, problem.cpu_seconds, problem.memory_mib) == (row["checker"], 3.0, 64)
    for checker, told in (("def", "checker: syntax error"), ("  ", "checker: empty")):
        path = write_rows(tmp_path, f"{len(told)}.jsonl", [{**row, "checker": checker}])
        with pytest.raises(ConfigurationError, match=told):
            read({**options, "source": {"path": path}})


def test_a_dataset_without_programs_tells_once_that_its_tester_hardly_learns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_rows(tmp_path, "l.jsonl", [live_row(f"Double {n}", functional=False) for n in range(9)])
    with caplog.at_level(logging.WARNING, "troupe.environments.data"):
        every({"dataset": "livecodebench", "source": {"path": path}}, 5, "train")
    assert sum("the tester's own rewards are known only" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize("functional", [True, False])
def test_the_names_that_authors_import_for_every_program_are_there(
    functional: bool, tmp_path: Path, sandbox_tools: Any
) -> None:
    rows = [live_row(f"Total {n}", functional=functional) for n in range(9)]
    live = read({"dataset": "livecodebench", "source": {"path": write_rows(tmp_path, "l.jsonl", rows)}})
    inputs = {"inputs": [[[1, 2], 3], [[4], 5]], "outputs": [6, 9], "fn_name": "total"} if functional else {}
    row = apps_row("One.", input_output=json.dumps(inputs)) if functional else apps_row("One.")
    apps = read(over(tmp_path, "apps", [row]))
    for problem, used in ((live, "gcd(reduce(add, [2, 2]), isqrt(16))"), (apps, "floor(sqrt(gcd(16, 32)))")):
        body = f"assert {used} == 4; heapify([]); Counter(); combinations; deque; sys.stdin"
        program = (
            f"class Solution:\n    def total(self, x: List[int], y: int) -> int:\n        {body}\n        return sum(x) + y\n"
            if functional
            else f"{body}\nprint(2 * int(input()))\n"
        )
        env = playthrough(problem, sandbox_tools)
        assert env.apply("coder", program).solves, problem.statement
