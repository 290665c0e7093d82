"""One episode by hand on a small shelf: turn order, rewards, termination, failures, and what is shown."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.environments.search.questions import Hop, Question
from components.environments.search.sizes import SIZES_BY_LEVEL
from components.errors import ConfigurationError, RetrieverUnavailable
from components.identity import canonical_json
from components.rewards.base import Rubric
from components.schema import Query
from tests.components.environments.search.tables import (
    CHAIN,
    REASONER,
    SEARCHER,
    SHELF,
    Shelf,
    observation_characters,
    table,
    the_family,
)


def test_an_episode_that_follows_the_chain() -> None:
    env = table()
    found = env.apply(SEARCHER, "?author of Moby")
    assert found.local == {"found": 0.5, "noted": 0.0, "malformed": 0.0}
    asked = env.apply(REASONER, "### birthplace of Ann Toval")
    assert asked.local == {"asked": 1.0, "malformed": 0.0}
    assert not env.done
    again = env.apply(SEARCHER, "?Ann Toval\n?Moby")
    assert again.local["found"] == 0.5
    answered = env.apply(REASONER, "=Kesson")
    assert answered.team == {"solved": 1.0, "f1": 1.0}
    assert answered.solves
    assert answered.done
    assert env.done
    assert env.success
    assert env.team_reward == pytest.approx(1.1)
    assert env.local_reward(SEARCHER) == pytest.approx(0.15)


def test_the_question_is_enough_for_the_first_search_and_the_reasoner_reads_what_came() -> None:
    env = table()
    assert env.observe(SEARCHER).state == "Q birthplace of the author of Moby?\nS>"
    env.apply(SEARCHER, "?author of Moby")
    assert env.observe(REASONER).state == (
        "Q birthplace of the author of Moby?\n+ Moby: Moby is a book by Ann Toval.\nR>"
    )
    env.apply(REASONER, "?birthplace of Ann Toval")
    assert "\n#1 birthplace of Ann Toval\n" in env.observe(SEARCHER).state


def test_a_wrong_answer_ends_the_episode_without_success() -> None:
    env = table()
    outcome = env.apply(REASONER, "=Ann of Kesson")
    assert (outcome.solves, outcome.done) == (False, True)
    assert outcome.team == {"solved": 0.0, "f1": pytest.approx(2 / 3)}
    assert env.done
    assert not env.success
    for role, late in ((SEARCHER, "?Moby"), (REASONER, "=Kesson")):
        after = env.apply(role, late)
        assert after.error
        assert after.team["solved"] == 0.0
        assert not env.success


def test_asking_for_what_is_needed_pays_more_than_any_wrong_answer() -> None:
    rubric = Rubric(team_weight=1.0, weights=the_family().default_weights)
    asked = rubric.reward(table().apply(REASONER, "?Ann Toval"))
    for wrong in ("=Kesson Kesson", "=Ann of Kesson", "=Moby"):
        assert rubric.reward(table().apply(REASONER, wrong)) < asked
    assert asked < rubric.reward(table().apply(REASONER, "=Kesson"))


def test_naming_what_the_question_names_or_what_was_found_or_asked_earns_nothing() -> None:
    env = table()
    assert env.apply(REASONER, "?author of Moby").local["asked"] == 0.0
    assert env.apply(REASONER, "?Ann Toval").local["asked"] == 1.0
    assert env.apply(REASONER, "?Ann Toval").local["asked"] == 0.0
    late = table()
    late.apply(SEARCHER, "?Ann Toval")
    assert late.apply(REASONER, "?Ann Toval").local["asked"] == 0.0


def test_a_sub_question_that_lists_what_it_read_is_worth_a_guess() -> None:
    question = Question(
        text="home of boss of Kozu?",
        answers=("Timo",),
        hops=(Hop(title="Kozu", names=("Kozu",)), Hop(title="Nali", names=("Nali",))),
    )
    worth = {}
    for asked in ("home of Nali", "Nali Rado", "Nali Rado Viso"):
        env = table(question, shelf=Shelf([("Kozu", "boss Nali, town Rado, rival Viso")]), sizes=SIZES_BY_LEVEL[0])
        env.apply(SEARCHER, "?Kozu")
        worth[asked] = env.apply(REASONER, f"?{asked}").local["asked"]
    assert list(worth.values()) == [1.0, pytest.approx(1 / 2), pytest.approx(1 / 3)]
    env = table(question, shelf=Shelf([("Kozu", "boss Nali, town Rado, rival Viso")]))
    env.apply(SEARCHER, "?Kozu")
    assert env.apply(REASONER, "?In which town does Nali live").local["asked"] == 1.0


def test_a_passage_is_found_once() -> None:
    env = table()
    assert env.apply(SEARCHER, "?Moby\n?Ann Toval").local["found"] == 1.0
    assert env.apply(SEARCHER, "?Moby\n?Ann Toval").local["found"] == 0.0


def test_without_named_passages_one_that_holds_an_answer_is_found() -> None:
    question = Question(text="where was she born", answers=("Kesson",))
    env = table(question)
    assert env.apply(SEARCHER, "?Moby").local["found"] == 0.0
    assert env.apply(SEARCHER, "?Ann Toval").local["found"] == 1.0
    assert env.apply(SEARCHER, "?Kesson").local["found"] == 0.0


def test_notes_answer_open_sub_questions_and_stand_for_them_in_queries() -> None:
    shelf = Shelf()
    env = table(shelf=shelf)
    env.apply(REASONER, "?author of Moby\n?birthplace of #1")
    refused = env.apply(SEARCHER, "?birthplace of #1")
    assert refused.error == "#1 has no answer yet"
    outcome = env.apply(SEARCHER, "#1 = Ann Toval\n?birthplace of #1")
    assert outcome.local == {"found": 0.5, "noted": 0.5, "malformed": 0.0}
    assert shelf.queries == [Query(text="birthplace of Ann Toval", num_passages=3)]
    state = env.observe(REASONER).state
    assert "#1 author of Moby = Ann Toval\n" in state
    assert "#2 birthplace of Ann Toval\n" in state
    assert env.apply(SEARCHER, "#1 = somebody else").error == "#1 is no open sub-question"
    assert env.apply(SEARCHER, "#3 = nobody").error == "#3 is no open sub-question"
    assert env.apply(SEARCHER, "#2 = Bimlo").local["noted"] == 0.0


def test_calls_announce_exactly_what_apply_asks_for() -> None:
    shelf = Shelf()
    env = table(shelf=shelf)
    env.apply(REASONER, "?author of Moby")
    action = "#1 = Ann Toval\n? Ann   Toval\n?home of #1\n"
    announced = env.referee.calls(env.position, SEARCHER, action)
    assert announced == (Query(text="Ann Toval", num_passages=3), Query(text="home of Ann Toval", num_passages=3))
    assert shelf.queries == []
    env.apply(SEARCHER, action)
    assert shelf.queries == list(announced)
    assert env.referee.calls(env.position, REASONER, "?Moby") == ()
    assert env.referee.calls(env.position, SEARCHER, "nonsense") == ()


def test_an_unreachable_retriever_passes_through_and_leaves_the_state_as_it_was() -> None:
    shelf = Shelf()
    env = table(shelf=shelf)
    env.apply(REASONER, "?author of Moby")
    before = env.position
    shelf.away = True
    with pytest.raises(RetrieverUnavailable, match="nobody home"):
        env.apply(SEARCHER, "#1 = Ann Toval\n?Ann Toval")
    assert env.position == before
    shelf.away = False
    assert env.apply(SEARCHER, "#1 = Ann Toval\n?Ann Toval").local["found"] == 0.5


def test_an_environment_without_tools_says_so() -> None:
    env = the_family().build(the_family().problem(the_family().options_type(), split="train", index=0, seed=0))
    with pytest.raises(ConfigurationError, match="retrieves passages"):
        env.apply(SEARCHER, "?x")


def test_a_malformed_answer_is_marked_until_a_well_formed_one() -> None:
    env = table()
    assert env.apply(SEARCHER, "hm").local == {"found": 0.0, "noted": 0.0, "malformed": 1.0}
    assert env.local_reward(SEARCHER) == pytest.approx(-0.1)
    assert env.observe(SEARCHER).state.endswith("\nS!>")
    assert env.observe(REASONER).state.endswith("\nR>")
    env.apply(SEARCHER, "?Moby")
    assert env.observe(SEARCHER).state.endswith("\nS>")


def test_the_list_of_sub_questions_has_an_end() -> None:
    env = table()
    for number in range(SIZES_BY_LEVEL[1].num_sub_questions):
        assert env.apply(REASONER, f"?thing {number}").error is None
    assert "sub-questions" in str(env.apply(REASONER, "?one more").error)
    assert env.apply(REASONER, "=Kesson").solves


def test_a_query_that_utf8_cannot_carry_is_sent_without_it() -> None:
    shelf = Shelf()
    table(shelf=shelf).apply(SEARCHER, "?a\ud800b")
    assert shelf.queries == [Query(text="a?b", num_passages=3)]


def test_whatever_is_shown_can_be_written_as_utf8() -> None:
    env = table(shelf=Shelf([("Moby", "a\ud800b")]), sizes=SIZES_BY_LEVEL[2])
    env.apply(SEARCHER, "?Moby")
    assert "+ Moby: a?b" in env.observe(REASONER).state
    env.observe(REASONER).state.encode()


@given(st.text(min_size=1, max_size=2000), st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_what_is_shown_is_bounded_and_ascii_where_asked(text: str, level: int) -> None:
    sizes = SIZES_BY_LEVEL[level].model_copy(update={"ascii_only": True})
    shelf = Shelf([("M", text), ("M", text[::-1]), (f"{text} M", "x" * 9000)])
    question = Question(text=text, answers=("x",), hops=(Hop(title="M"),))
    env = table(question, shelf=shelf, sizes=sizes)
    for _ in range(12):
        env.apply(SEARCHER, "?M")
        env.apply(REASONER, "?" + "y" * sizes.line_characters)
        env.apply(SEARCHER, "#1=" + "z" * sizes.line_characters)
        for role in env.roles:
            shown = env.observe(role).state
            assert len(shown) <= observation_characters(sizes)
            assert all(character == "\n" or " " <= character <= "~" for character in shown)


def test_a_question_survives_its_payload() -> None:
    assert Question.model_validate(CHAIN.model_dump(by_alias=True)) == CHAIN
    assert canonical_json(CHAIN.model_dump(mode="json", by_alias=True))


def test_a_picture_shows_the_verdict_and_the_needed_passages() -> None:
    env = table(shelf=Shelf(SHELF))
    env.apply(SEARCHER, "?Moby and Kesson")
    env.apply(REASONER, "=Moby")
    plain, coloured = env.render(color=False), env.render(color=True)
    assert "* Moby: Moby is a book" in plain
    assert "- Kesson:" in plain
    assert "answer: Moby (wrong, F1 0.00)" in plain
    assert "gold: Kesson | Town of Kesson" in plain
    assert "\x1b" not in plain
    assert "\x1b[31m" in coloured
