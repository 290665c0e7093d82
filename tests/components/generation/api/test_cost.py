"""The account counts what was used, and no request goes that could exceed the bound."""

import threading
import time

import pytest

from components.config import ApiConfig
from components.errors import ApiUnavailable, BudgetSpent
from components.generation.api.chat import ChatAnswer, ChatFailure, ChatReply, ChatUsage
from components.generation.api.cost import ApiAccount
from components.schema import ApiUsage

ANSWER = ChatAnswer(text="a", finish_reason="stop")
REFUSAL = ChatAnswer(text="", finish_reason="stop", refused=True)


def account(**settings: float) -> ApiAccount:
    config = {"provider": "openai", "model": "m", "input_price": 1.0, "output_price": 4.0, **settings}
    return ApiAccount("critic", ApiConfig.model_validate(config))


def reply(prompt: int, answer: int, *answers: ChatAnswer, num_retries: int = 0) -> ChatReply:
    usage = ChatUsage(num_prompt_tokens=prompt, num_answer_tokens=answer)
    return ChatReply(answers=answers or (ANSWER,), usage=usage, num_retries=num_retries)


def test_usage_is_priced_by_the_million_tokens() -> None:
    held = account()
    held.settle(held.reserve(max_prompt_tokens=2000, max_answer_tokens=1600), reply(1000, 500, ANSWER, REFUSAL))
    held.settle(held.reserve(max_prompt_tokens=10, max_answer_tokens=10), reply(10, 5, num_retries=2))
    assert held.usage == ApiUsage(
        num_requests=2,
        num_retries=2,
        num_answers=3,
        num_refusals=1,
        num_prompt_tokens=1010,
        num_answer_tokens=505,
        cost=pytest.approx((1010 + 4 * 505) / 1e6),
    )


def test_the_difference_of_two_readings_is_what_was_used_between() -> None:
    held = account()
    held.settle(held.reserve(max_prompt_tokens=1, max_answer_tokens=1), reply(1, 1))
    before = held.usage
    held.settle(held.reserve(max_prompt_tokens=9, max_answer_tokens=9), reply(7, 2))
    used = held.usage - before
    assert (used.num_requests, used.num_prompt_tokens, used.num_answer_tokens) == (1, 7, 2)
    assert before + used == held.usage


def test_each_use_is_taken_once() -> None:
    held = account()
    assert held.take() == ApiUsage()
    for prompt in (7, 2):
        held.settle(held.reserve(max_prompt_tokens=9, max_answer_tokens=9), reply(prompt, 1))
    taken = held.take()
    assert (taken.num_requests, taken.num_prompt_tokens) == (2, 9)
    held.settle(held.reserve(max_prompt_tokens=9, max_answer_tokens=9), reply(4, 1))
    assert taken + held.take() == held.usage
    assert held.take() == ApiUsage()


@pytest.mark.parametrize(("may_be_billed", "cost"), [(True, 0.0084), (False, 0.0)])
def test_a_failure_costs_its_bound_when_the_provider_may_have_worked(may_be_billed: bool, cost: float) -> None:
    held = account()
    failure = ChatFailure(error=ApiUnavailable("gone"), num_retries=3, may_be_billed=may_be_billed)
    held.settle(held.reserve(max_prompt_tokens=2000, max_answer_tokens=1600), failure)
    assert held.usage.cost == pytest.approx(cost)
    assert (held.usage.num_failed_requests, held.usage.num_retries) == (1, 3)
    assert held.usage.num_unmetered_requests == may_be_billed


def test_an_answer_without_usage_costs_its_bound() -> None:
    held = account()
    reserved = held.reserve(max_prompt_tokens=2000, max_answer_tokens=1600)
    held.settle(reserved, ChatReply(answers=(ANSWER,), usage=None, num_retries=0))
    assert held.usage.cost == pytest.approx(0.0084)
    assert held.usage.num_unmetered_requests == 1


def test_a_request_that_could_exceed_the_bound_is_refused_and_a_smaller_one_is_not() -> None:
    held = account(max_cost=0.01)
    held.settle(held.reserve(max_prompt_tokens=2000, max_answer_tokens=1600), reply(2000, 1000))
    with pytest.raises(BudgetSpent, match=r"policies\.critic\.api\.max_cost 0\.01: 0\.006 is spent.*may cost 0\.0084"):
        held.reserve(max_prompt_tokens=2000, max_answer_tokens=1600)
    assert held.reserve(max_prompt_tokens=0, max_answer_tokens=1000) == pytest.approx(0.004)


def test_a_request_waits_for_what_others_put_aside_and_goes_when_it_is_freed() -> None:
    held = account(max_cost=0.01)
    first = held.reserve(max_prompt_tokens=0, max_answer_tokens=2000)
    went = threading.Event()

    def second() -> None:
        held.reserve(max_prompt_tokens=0, max_answer_tokens=2000)
        went.set()

    thread = threading.Thread(target=second, daemon=True)
    thread.start()
    assert not went.wait(0.1)
    held.settle(first, reply(0, 100))
    assert went.wait(5)
    thread.join()


def test_many_threads_never_spend_more_than_the_bound_and_stop_only_near_it() -> None:
    held = account(max_cost=0.01)
    refused = []

    def play(number: int) -> None:
        for _ in range(40):
            try:
                reserved = held.reserve(max_prompt_tokens=50, max_answer_tokens=100)
            except BudgetSpent:
                refused.append(number)
                return
            time.sleep(0.0002)
            held.settle(reserved, reply(50, 100 if number % 2 else 30))

    threads = [threading.Thread(target=play, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 8
    assert 0.01 - 0.00045 < held.usage.cost <= 0.01
