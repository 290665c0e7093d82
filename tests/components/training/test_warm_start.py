from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.config import PolicyConfig, TinyModelConfig, WarmStartConfig
from components.environments.registry import family, family_options
from components.errors import ConfigurationError, WarmStartTooWeak
from components.models.digests import model_digest
from components.models.loading import prepare_model_folder
from components.models.tokenizer import HuggingFaceTokenizer
from components.schema import PolicyVersion, TrainGroup
from components.training.checkpoint import load_model
from components.training.demonstrations import Student, Teacher
from components.training.warm_start import warm_start
from tests.components.model_types import MODEL_TYPES

GAME = family("plan_path")
OPTIONS = family_options("plan_path", {})
SMALL = TinyModelConfig(hidden_size=32, num_layers=2, num_heads=2, intermediate_size=48)


def student(
    folder: Path, *, roles: tuple[str, ...] = GAME.roles, tiny: TinyModelConfig = SMALL, seed: int = 0
) -> Student:
    prepare_model_folder(PolicyConfig(tiny=tiny), alphabet=GAME.alphabet(OPTIONS), seed=seed, into=folder)
    tokenizer = HuggingFaceTokenizer.from_folder(folder)
    return Student(folder=folder, roles=roles, tokenizer=tokenizer, encode=lambda seen: tokenizer.encode(seen.state))


def teacher(seed: int = 0, *, roles: tuple[str, ...] = GAME.roles, **config: Any) -> Teacher:
    settings = {
        "max_steps": 8,
        "check_every": 4,
        "min_success": 0.0,
        "prompts_per_step": 4,
        "num_warmup_steps": 2,
        **config,
    }
    return Teacher(family=GAME, turn_order=roles, options=OPTIONS, config=WarmStartConfig(**settings), seed=seed)


def texts(pupil: Student, group: TrainGroup) -> tuple[str, list[str]]:
    decode = pupil.tokenizer.decode
    return decode(group.prompt_tokens), [decode(tokens) for tokens in group.completions_K_T]


def test_a_lesson_is_a_function_of_seed_role_and_step(tmp_path: Path) -> None:
    pupil = student(tmp_path)
    lessons = [teacher(seed).lesson(pupil, role, step) for seed in (0, 1) for role in GAME.roles for step in (0, 1)]
    again = [teacher(seed).lesson(pupil, role, step) for seed in (0, 1) for role in GAME.roles for step in (0, 1)]
    assert lessons == again
    assert all(a != b for i, a in enumerate(lessons) for b in lessons[:i])
    asked_late = teacher(0)
    asked_late.lesson(pupil, GAME.roles[1], 7)
    assert asked_late.lesson(pupil, GAME.roles[0], 0) == lessons[0]


def test_answers_are_well_formed_and_end(tmp_path: Path) -> None:
    pupil = student(tmp_path)
    for role in GAME.roles:
        for group in teacher(demonstrations_per_prompt=3).lesson(pupil, role, 0):
            prompt, answers = texts(pupil, group)
            assert prompt.startswith("T" if role == GAME.roles[0] else "P")
            assert len(answers) == 3
            assert all(0 < len(answer) <= 10 and set(answer) <= set("UDLR") for answer in answers)
            assert all(tokens[-1] == pupil.tokenizer.end_token for tokens in group.completions_K_T)


def proposals_and_answers(pupil: Student, **config: Any) -> list[tuple[str, bool, str]]:
    """(proposal, whether it solves, answer) of many demonstrations to the last agent."""
    wanted = teacher(prompts_per_step=60, noise=0.5, demonstrations_per_prompt=4, **config)
    rows = []
    for group in wanted.lesson(pupil, GAME.roles[-1], 0):
        prompt, answers = texts(pupil, group)
        proposal = prompt[prompt.index(":") + 1 : prompt.index("|")].rstrip("-")
        rows += [(proposal, prompt.endswith("y>"), answer) for answer in answers]
    return rows


def test_the_last_agent_copies_solving_proposals_and_no_others(tmp_path: Path) -> None:
    pupil = student(tmp_path)
    always = proposals_and_answers(pupil, copy_probability=1.0)
    assert {solves for _, solves, _ in always} == {True, False}
    assert all(answer == proposal for proposal, solves, answer in always if solves)
    never = proposals_and_answers(pupil, copy_probability=0.0)
    copied = [answer == proposal for proposal, solves, answer in never if solves]
    assert sum(copied) < 0.5 * len(copied)
    failed = [answer == proposal for proposal, solves, answer in always if not solves]
    assert sum(failed) < 0.1 * len(failed)


def test_an_agent_alone_is_shown_no_proposal(tmp_path: Path) -> None:
    pupil, last = student(tmp_path), GAME.roles[-1]

    def proposals(roles: tuple[str, ...]) -> set[str]:
        lesson = teacher(prompts_per_step=20, roles=roles).lesson(pupil, last, 0)
        return {texts(pupil, group)[0].partition(":")[2].partition("|")[0].rstrip("-") for group in lesson}

    assert proposals((last,)) == {""}
    assert "" not in proposals(GAME.roles)


def test_states_are_starts_and_middles(tmp_path: Path) -> None:
    pupil = student(tmp_path)
    lesson = teacher(prompts_per_step=40).lesson(pupil, GAME.roles[0], 0)
    shortest = [min(len(tokens) - 1 for tokens in group.completions_K_T) for group in lesson]
    assert min(shortest) < OPTIONS.min_distance <= max(shortest)


def test_a_model_that_packed_rows_would_train_wrongly_is_not_cloned(tmp_path: Path) -> None:
    pupil = student(tmp_path)
    for weights in tmp_path.glob("*.safetensors"):
        weights.unlink()
    MODEL_TYPES["lfm2"].model().save_pretrained(tmp_path)
    with pytest.raises(ConfigurationError, match="Lfm2ForCausalLM"):
        warm_start({"team": pupil}, teacher(), success_of=lambda versions: 1.0)


def test_the_loss_falls_and_the_folder_holds_the_learned_weights(tmp_path: Path) -> None:
    pupil = student(tmp_path)
    before = model_digest(load_model(tmp_path))
    seen: list[PolicyVersion] = []
    calls: list[tuple[int, int, float, float | None]] = []

    def success_of(versions: Mapping[str, PolicyVersion]) -> float:
        seen.append(versions["team"])
        assert model_digest(load_model(tmp_path)) == versions["team"].weights_digest
        return 0.1 * len(seen)

    warm_start(
        {"team": pupil},
        teacher(max_steps=40, check_every=15, min_success=0.3, learning_rate=1e-2),
        success_of=success_of,
        progress=lambda *call: calls.append(call),
    )
    losses = [loss for _, _, loss, _ in calls]
    assert sum(losses[-8:]) / 8 < 0.75 * sum(losses[:4]) / 4
    assert [version.step for version in seen] == [15, 30, 40]
    success_by_step = {step: success for step, _, _, success in calls if success is not None}
    assert success_by_step == pytest.approx({15: 0.1, 30: 0.2, 40: 0.3})
    assert [(step, max_steps) for step, max_steps, _, _ in calls] == [(step, 40) for step in range(1, 41)]
    assert model_digest(load_model(tmp_path)) == seen[-1].weights_digest != before


def test_it_stops_at_the_first_check_that_reaches_the_gate(tmp_path: Path) -> None:
    checks = iter([0.29, 0.3, 0.4])
    steps: list[int] = []
    warm_start(
        {"team": student(tmp_path)},
        teacher(max_steps=12, min_success=0.3),
        success_of=lambda versions: next(checks),
        progress=lambda step, *_: steps.append(step),
    )
    assert steps == list(range(1, 9))
    assert next(checks) == 0.4


def test_equal_arguments_end_in_equal_weights(tmp_path: Path) -> None:
    digests = []
    for name in ("one", "two"):
        pupil = student(tmp_path / name)
        warm_start({"team": pupil}, teacher(), success_of=lambda versions: 0.0 if versions["team"].step < 8 else 0.5)
        digests.append(model_digest(load_model(pupil.folder)))
    assert digests[0] == digests[1]


def test_below_min_success_at_the_end_is_too_weak_and_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        WarmStartTooWeak, match=r"max_steps 8 .* solves 0\.120 of 200 .*\.min_success 0\.3: raise max_steps"
    ):
        warm_start({"team": student(tmp_path)}, teacher(min_success=0.3), success_of=lambda versions: 0.12)


def test_above_the_ceiling_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"max_success 0\.5: after 4 steps .* solves 0\.700 .* lower check_every 4"
    ):
        warm_start({"team": student(tmp_path)}, teacher(min_success=0.3), success_of=lambda versions: 0.7)


def test_no_steps_leave_the_random_weights_and_demand_nothing(tmp_path: Path) -> None:
    pupil, steps = student(tmp_path), list[int]()
    before = model_digest(load_model(tmp_path))
    warm_start(
        {"team": pupil},
        teacher(max_steps=0, min_success=0.3),
        success_of=lambda versions: 0.0,
        progress=lambda step, *_: steps.append(step),
    )
    assert steps == []
    assert model_digest(load_model(tmp_path)) == before


def test_each_policy_learns_its_own_role(tmp_path: Path) -> None:
    first, last = GAME.roles
    pupils = {"p": student(tmp_path / "p", roles=(first,)), "q": student(tmp_path / "q", roles=(last,), seed=1)}
    asked: list[tuple[Path, str]] = []

    class Watched(Teacher):
        def lesson(self, student: Student, role: str, step: int) -> list[TrainGroup]:
            asked.append((student.folder, role))
            return super().lesson(student, role, step)

    plain = teacher(max_steps=4)
    watched = Watched(
        family=plain.family, turn_order=plain.turn_order, options=plain.options, config=plain.config, seed=0
    )
    before = {policy: model_digest(load_model(pupil.folder)) for policy, pupil in pupils.items()}
    warm_start(pupils, watched, success_of=lambda versions: 0.5 if set(versions) == {"p", "q"} else 0.0)
    assert asked == [(pupils["p"].folder, first), (pupils["q"].folder, last)] * 2
    assert all(model_digest(load_model(pupil.folder)) != before[policy] for policy, pupil in pupils.items())


def test_a_role_that_nobody_learns_is_left_out(tmp_path: Path) -> None:
    pupil = replace(student(tmp_path), roles=(GAME.roles[-1],))
    steps: list[int] = []
    warm_start(
        {"team": pupil},
        teacher(max_steps=3),
        success_of=lambda versions: 0.5,
        progress=lambda step, *_: steps.append(step),
    )
    assert steps == [1, 2, 3]
