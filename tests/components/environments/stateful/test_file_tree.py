"""The file tree: it stays a tree, the protected folder stays as it is, and only the requested tree counts."""

import shutil
from pathlib import Path
from posixpath import dirname
from random import Random
from typing import Any

import pytest

from components.environments.play import Playthrough
from components.environments.registry import family
from components.environments.stateful.environment import WorldOptions
from components.environments.stateful.file_tree import FileTreeWorld
from components.environments.stateful.tools import Call, Refusal, call_tool, calls_text, run_calls
from components.environments.stateful.tree import File, Tree
from components.schema import Problem
from tests.components.environments.mutations import mutate

FAMILY = family("file_tree")
DISK: dict[str, Any] = {
    "nodes": [
        ["/docs", None],
        ["/docs/ape.log", [7, "yes"]],
        ["/docs/src", None],
        ["/docs/src/bee.log", [2, "no"]],
        ["/elk.txt", [4, "hello"]],
        ["/sys", None],
        ["/sys/fox.tmp", [9, "no"]],
        ["/web", None],
    ],
    "goals": [
        {"do": "archive", "ending": "log", "older": 5, "into": "old"},
        {"do": "copy", "file": "elk.txt", "into": "src"},
        {"do": "prune"},
    ],
    "protected": "/sys",
    "max_steps": 6,
    "max_calls": 6,
    "max_answer_characters": 80,
}


def disk(**changes: Any) -> Playthrough:
    return FAMILY.build(Problem(problem_id="file_tree-x", environment="file_tree", payload={**DISK, **changes}))


def move(source: str, folder: str) -> Call:
    return {"tool": "move", "source": source, "folder": folder}


def test_the_agents_read_requests_plan_and_tree() -> None:
    env = disk()
    goal = "archive .log >5 old;copy elk.txt src;prune"
    files = "ape.log@docs 7,bee.log@src 2,elk.txt@/ 4,fox.tmp@sys 9"
    assert env.observe("planner").state == f"P{goal}|{files}|docs,src,sys,web|>"
    plan = FAMILY.expert_action(env.position, "planner")
    assert plan == "make old /;move ape.log old;copy elk.txt src;prune"
    env.apply("planner", plan)
    paths = "/docs/,/docs/ape.log,/docs/src/,/docs/src/bee.log,/elk.txt,/sys/,/sys/fox.tmp,/web/"
    assert env.observe("tool_agent").state == f"T{plan}|{paths}|>"
    calls = [
        {"tool": "make", "folder": "/old"},
        move("/docs/ape.log", "/old"),
        {"tool": "copy", "source": "/elk.txt", "folder": "/docs/src"},
        {"tool": "delete", "path": "/web"},
    ]
    assert FAMILY.expert_action(env.position, "tool_agent") == calls_text(calls)
    assert env.apply("tool_agent", calls_text(calls)).done
    assert dict(env.position.state.state)["/docs/src/elk.txt"] == File(age=0, text="hello")


@pytest.mark.parametrize(
    ("call", "error_type"),
    [
        ({"tool": "list", "folder": "/nowhere"}, "not_found"),
        ({"tool": "list", "folder": "/elk.txt"}, "not_found"),
        ({"tool": "read", "file": "/docs"}, "not_found"),
        ({"tool": "make", "folder": "/docs"}, "conflict"),
        ({"tool": "make", "folder": "/a/b"}, "not_found"),
        ({"tool": "make", "folder": "a"}, "bad_value"),
        ({"tool": "make", "folder": "/.."}, "bad_value"),
        ({"tool": "make", "folder": "/docs/"}, "bad_value"),
        ({"tool": "make", "folder": "/sys/new"}, "permission"),
        (move("/elk.txt", "/elk.txt"), "conflict"),
        (move("/elk.txt", "/"), "conflict"),
        (move("/docs", "/docs/src"), "conflict"),
        (move("/docs", "/docs"), "conflict"),
        (move("/", "/docs"), "not_found"),
        (move("/sys/fox.tmp", "/docs"), "permission"),
        (move("/sys", "/docs"), "permission"),
        (move("/elk.txt", "/sys"), "permission"),
        ({"tool": "copy", "source": "/docs", "folder": "/web"}, "not_found"),
        ({"tool": "copy", "source": "/elk.txt", "folder": "/"}, "conflict"),
        ({"tool": "delete", "path": "/docs"}, "conflict"),
        ({"tool": "delete", "path": "/"}, "not_found"),
        ({"tool": "delete", "path": "/sys/fox.tmp"}, "permission"),
        ({"tool": "write", "file": "/docs", "text": "x"}, "conflict"),
        ({"tool": "write", "file": "/sys/fox.tmp", "text": "x"}, "permission"),
        ({"tool": "copy", "source": "/sys/fox.tmp", "folder": "/web"}, "none"),
        ({"tool": "write", "file": "/elk.txt", "text": "x"}, "none"),
        ({"tool": "find", "ending": ".log"}, "none"),
        (move("/docs", "/web"), "none"),
    ],
)
def test_each_error_has_its_type(call: Call, error_type: str) -> None:
    env = disk()
    result = call_tool(env.position.state.world.tools, env.position.state.state, call)
    assert (result.type if isinstance(result, Refusal) else "none") == error_type


def test_reading_tools_answer_and_a_full_disk_takes_nothing_more() -> None:
    env = disk()
    looks = [
        {"tool": "list", "folder": "/docs"},
        {"tool": "read", "file": "/elk.txt"},
        {"tool": "find", "ending": ".log"},
    ]
    scene = env.position.state
    answers = run_calls(scene.world.tools, scene.state, looks).answers
    assert answers == ('["ape.log","src/"]', '{"text":"hello","age":4}', '["/docs/ape.log","/docs/src/bee.log"]')
    many = run_calls(scene.world.tools, scene.state, [{"tool": "make", "folder": f"/n{n}"} for n in range(30)])
    assert many.refusal == Refusal(type="conflict", message="the disk is full")
    assert len(many.state) == 15


def test_a_folder_is_moved_with_all_that_is_in_it() -> None:
    env = disk()
    state = run_calls(env.position.state.world.tools, env.position.state.state, [move("/docs", "/web")]).state
    assert {path for path, _ in state if path.startswith("/web/")} == {
        "/web/docs",
        "/web/docs/ape.log",
        "/web/docs/src",
        "/web/docs/src/bee.log",
    }
    assert not any(path.startswith("/docs") for path, _ in state)
    assert disk().position.state.world.expert_steps(state)


def test_a_lost_file_leaves_nothing_to_be_done() -> None:
    env = disk()
    env.apply("tool_agent", '[{"tool":"delete","path":"/docs/ape.log"}]')
    assert env.position.state.world.expert_steps(env.position.state.state) == []
    assert FAMILY.expert_action(env.position, "planner") == ""
    assert not env.success


@pytest.mark.parametrize(
    "slip",
    [
        [{"tool": "make", "folder": "/docs/new"}],
        [{"tool": "write", "file": "/docs/src/elk.txt", "text": "hello!"}],
        [{"tool": "write", "file": "/old/ape.log", "text": "yes"}],
        [{"tool": "delete", "path": "/elk.txt"}],
        [{"tool": "copy", "source": "/sys/fox.tmp", "folder": "/old"}],
        [move("/docs/src/bee.log", "/old")],
        [move("/docs", "/old")],
        [],
    ],
)
def test_one_thing_more_or_other_than_requested_is_no_success(slip: list[Call]) -> None:
    env, pruning = disk(max_calls=9), {"tool": "delete", "path": "/web"}
    solving = [
        {"tool": "make", "folder": "/old"},
        move("/docs/ape.log", "/old"),
        {"tool": "copy", "source": "/elk.txt", "folder": "/docs/src"},
    ]
    outcome = env.apply("tool_agent", calls_text([*solving, *slip, *([pruning] if slip else [])]))
    assert outcome.local["errors"] == 0.0
    assert not outcome.solves
    assert not env.success
    assert disk(max_calls=9).apply("tool_agent", calls_text([*solving, pruning])).done


def carry_out_requests(payload: dict[str, Any], folder: Path) -> set[tuple[str, str | None]]:
    """The tree that the requests of a payload ask for, by doing them to real files in `folder`."""
    for path, file in payload["nodes"]:
        if file is None:
            (folder / path[1:]).mkdir()
        else:
            (folder / path[1:]).write_text(f"{file[0]} {file[1]}")
    for goal in payload["goals"]:
        if goal["do"] == "archive":
            into = folder / goal["into"]
            into.mkdir(exist_ok=True)
            for found in [*folder.rglob(f"*.{goal['ending']}")]:
                if int(found.read_text().split()[0]) > goal["older"] and found.parent not in (into, folder / "sys"):
                    shutil.move(found, into)
        elif goal["do"] == "delete":
            for found in [*folder.rglob(f"*.{goal['ending']}")]:
                if found.parent != folder / "sys":
                    found.unlink()
        elif goal["do"] == "prune":
            for found in sorted(folder.rglob("*"), key=lambda path: -len(path.parts)):
                if found.is_dir() and found.name != "sys" and not [*found.iterdir()]:
                    found.rmdir()
        else:
            [into] = folder.rglob(goal["into"])
            text = goal.get("text") or next(folder.rglob(goal["file"])).read_text().split()[1]
            (into / goal["file"]).write_text(f"0 {text}")
    return {
        (f"/{path.relative_to(folder)}", path.read_text() if path.is_file() else None) for path in folder.rglob("*")
    }


def list_tree(tree: Tree) -> set[tuple[str, str | None]]:
    return {(path, f"{file.age} {file.text}" if file else None) for path, file in tree}


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_the_requested_tree_is_what_the_same_commands_do_to_real_files(level: int, tmp_path: Path) -> None:
    for index in range(15):
        folder = tmp_path / str(index)
        folder.mkdir()
        problem = FAMILY.problem(WorldOptions(level=level), split="test", index=index, seed=3)
        world = FAMILY.build(problem).position.state.world
        assert isinstance(world, FileTreeWorld)
        assert list_tree(world.target) == carry_out_requests(dict(problem.payload), folder)


def test_a_tree_stays_a_tree_and_the_protected_folder_stays_under_any_calls() -> None:
    rng = Random(0)
    for index in range(30):
        problem = FAMILY.problem(WorldOptions(level=index % 4), split="train", index=index, seed=1)
        env = FAMILY.build(problem)
        world, state = env.position.state.world, env.position.state.state
        assert isinstance(world, FileTreeWorld)
        kept = {node for node in state if node[0].startswith("/sys")}
        for _ in range(40):
            calls = [world.random_call(state, rng) for _ in range(rng.randint(1, 3))]
            env.apply("tool_agent", mutate(calls, rng) if rng.random() < 0.3 else calls_text(calls))
            state = env.position.state.state
            nodes = dict(state)
            assert all(
                dirname(path) == "/" or (dirname(path) in nodes and nodes[dirname(path)] is None) for path in nodes
            )
            assert [path for path, _ in state] == sorted(nodes)
            assert kept == {node for node in state if node[0].startswith("/sys")}
            assert env.success == (list_tree(state) == list_tree(world.target))
