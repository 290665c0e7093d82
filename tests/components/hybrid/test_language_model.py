"""A model's answers are drawn from its own probabilities, and its lessons are read and asked for again."""

from collections import Counter
from math import log
from random import Random
from typing import Any

import pytest

from benchmarks.scripted_advisers import CompetentAdviser, ConfidentBadAdviser
from components.generation.base import Completion
from components.hybrid.game_facts import Action, no_facts
from components.hybrid.game_text import split_games
from components.hybrid.language_model import (
    LanguageModelAdviser,
    LanguageModelTeacher,
    TrainableLlmActor,
)
from components.hybrid.llm_actor import Question
from components.hybrid.twin import Twin
from components.schema import PolicyVersion

VERSION = PolicyVersion(policy="hybrid", step=0, weights_digest="0" * 64)


class Characters:
    """One token for each character."""

    end_token = 0

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(map(ord, text))

    def encode_chat(self, instructions: str, state: str) -> tuple[int, ...]:
        return self.encode(f"{instructions}\n{state}\n")

    def decode(self, tokens: Any) -> str:
        return "".join(chr(token) for token in tokens if token)


class Table:
    """A generator with given probabilities of whole answers, divided among their tokens, and given texts."""

    def __init__(self, probabilities: dict[str, float], texts: Any = ()) -> None:
        self.tokenizer, self.probabilities, self.texts, self.prompts = Characters(), probabilities, list(texts), []

    def generate(self, requests: Any, version: PolicyVersion) -> Any:
        return [tuple(self._completion(request, version, seed) for seed in request.seeds_K) for request in requests]

    def _completion(self, request: Any, version: PolicyVersion, seed: int) -> Completion:
        self.prompts.append(self.tokenizer.decode(request.prompt_tokens))
        if request.choices:
            weights = [self.probabilities.get(self.tokenizer.decode(choice), 1e-9) for choice in request.choices]
            (tokens,) = Random(seed).choices(request.choices, weights)
            logprob = log(weights[request.choices.index(tokens)] / sum(weights))
        else:
            tokens, logprob = self.tokenizer.encode(self.texts.pop(0)), 0.0
        logprobs = (logprob / max(1, len(tokens)),) * len(tokens)
        return Completion(tokens=tokens, logprobs=logprobs, finish_reason="stop", version=version)


def test_the_confidence_of_a_choice_is_the_probability_it_was_drawn_with() -> None:
    generator = Table({"Left": 0.3, "Up": 0.1, "Down": 0.6})
    (game,) = split_games(Twin(1, seed=0).facts)
    question = Question(facts=game, legal=(Action.LEFT, Action.UP))
    drawn = [LanguageModelAdviser(generator, VERSION, seed=seed).advise([question])[0] for seed in range(2000)]
    counts = Counter(each.action for each in drawn)
    assert counts[Action.LEFT] / 2000 == pytest.approx(0.75, abs=0.04)
    found = {(each.action, round(each.confidence, 6)) for each in drawn}
    assert found == {(Action.LEFT, 0.75), (Action.UP, 0.25)}


def test_a_model_is_asked_for_legal_buttons_with_the_state_the_goal_and_the_last_decisions() -> None:
    generator = Table({"Start": 0.9, "Left": 0.05})
    (game,) = split_games(Twin(1, seed=0).facts)
    question = Question(facts=game, legal=(Action.LEFT, Action.NONE), recent=(Action.UP, Action.DOWN))
    (advice,) = LanguageModelAdviser(generator, VERSION).advise([question])
    assert (advice.action, round(advice.confidence, 4)) == (Action.LEFT, 1.0), "Start is not legal"
    for part in ("town at column 4, row 5", "Goal: take your first monster", "Up, Down", "Buttons: LEFT, NONE"):
        assert part in generator.prompts[0]


def test_a_teacher_is_shown_what_was_refused_and_writes_again() -> None:
    generator = Table({}, ["far: len(x) > 1", "far: x >= 8\nnorth: y <= 2"])
    lesson = LanguageModelTeacher(generator, VERSION).write_lesson("You are in the town.", "the badge", seed=0)
    assert [subgoal.name for subgoal in lesson.subgoals] == ["far", "north"]
    assert "were refused" not in generator.prompts[0]
    assert "`len(x)` (Call) is not in the language" in generator.prompts[1]
    hopeless = Table({}, ["nothing", "far: x >= 8\nfight()", ""])
    lesson = LanguageModelTeacher(hopeless, VERSION).write_lesson("You are in the town.", "the badge", seed=0)
    assert [subgoal.name for subgoal in lesson.subgoals] == ["far"]
    assert hopeless.texts == []


def test_scripted_advisers_give_legal_answers_that_depend_on_the_question_alone() -> None:
    facts = no_facts(4) | {"map_group": no_facts(4)["x"] + 24, "map_number": no_facts(4)["x"] + 4}
    facts["battle_mode"] = facts["battle_mode"].copy()
    facts["battle_mode"][1] = 1
    facts["script"] = facts["script"].copy()
    facts["script"][2] = 1
    legal = (Action.A, Action.B, Action.NONE)
    questions = [Question(facts=game, legal=legal) for game in split_games(facts)]
    for llm_actor in (CompetentAdviser(seed=1), ConfidentBadAdviser(seed=1)):
        answers = llm_actor.advise(questions)
        assert answers == [type(llm_actor)(seed=1).advise([question])[0] for question in questions]
        assert all(answer.action in legal for answer in answers)


def test_a_model_that_learns_draws_for_every_question_and_keeps_what_it_drew() -> None:
    generator = Table({"Left": 0.25, "Up": 0.75})
    (facts,) = split_games(no_facts(1))
    alike = [Question(facts=facts, legal=(Action.LEFT, Action.UP)) for _ in range(400)]
    llm_actor = TrainableLlmActor(generator, VERSION, seed=3)
    advices = llm_actor.advise(alike) + llm_actor.advise(alike[:1])
    assert [advice.draw for advice in advices] == list(range(401))
    ups = sum(advice.action is Action.UP for advice in advices)
    assert abs(ups / 401 - 0.75) < 0.08, "equal questions are drawn anew"
    for advice, draw in zip(advices, llm_actor.draws, strict=True):
        said = generator.tokenizer.decode(draw.tokens)
        assert said == ("Up" if advice.action is Action.UP else "Left")
        assert sum(draw.logprobs) == pytest.approx(log(generator.probabilities[said]))
        assert advice.confidence == pytest.approx(generator.probabilities[said])
        assert generator.tokenizer.decode(draw.prompt_tokens) in generator.prompts
        assert draw.tokens in draw.choices
    again = TrainableLlmActor(generator, VERSION, seed=3)
    assert again.advise(alike) == advices[:400], "a step that is played again draws the same"
