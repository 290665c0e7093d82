"""What the requests to an API used and cost, and the bound on it."""

import threading

from components.config import ApiConfig
from components.errors import BudgetSpent
from components.generation.api.chat import ChatFailure, ChatReply
from components.schema import ApiUsage

_PER = 1_000_000
"""Prices are of a million tokens."""


class ApiAccount:
    """Keeps the usage of one policy's API, and lets no request go that could exceed `max_cost`. Safe between threads.

    A request reserves the most that it may cost before it is sent, and is charged what it used when it ends. What the SDK
    retried after a timeout is charged once; a provider that bills every attempt is paid more than is seen here.

    **Example** prices 1 and 4, max_cost 0.01: a request of at most 2,000 prompt tokens and 8 answers of 200 tokens reserves
    (2,000 + 4 * 1,600) / 1e6 = 0.0084; a second one waits until the first has ended, and goes if 0.0016 or less was spent.
    """

    def __init__(self, policy: str, config: ApiConfig) -> None:
        self._policy = policy
        self._config = config
        self._changed = threading.Condition()
        self._usage = self._taken = ApiUsage()
        self._reserved: list[float] = []

    @property
    def usage(self) -> ApiUsage:
        """All that was used so far; requests under way are not in it."""
        with self._changed:
            return self._usage

    def take(self) -> ApiUsage:
        """What was used since the last call of this."""
        with self._changed:
            used, self._taken = self._usage - self._taken, self._usage
            return used

    def reserve(self, *, max_prompt_tokens: int, max_answer_tokens: int) -> float:
        """The most that a request may cost, put aside for it.

        Waits while requests under way have put aside what it needs. Raises BudgetSpent when what is spent leaves too little.
        """
        most = self._price(max_prompt_tokens, max_answer_tokens)
        bound = self._config.max_cost
        with self._changed:
            while bound is not None and self._usage.cost + sum(self._reserved) + most > bound:
                if not self._reserved or self._usage.cost + most > bound:
                    raise BudgetSpent(
                        f"policies.{self._policy}.api.max_cost {bound:g}: {self._usage.cost:.6g} is spent, and the next "
                        f"request may cost {most:.6g}; raise max_cost, or lower agents.<role>.max_new_tokens"
                    )
                self._changed.wait()
            self._reserved.append(most)
        return most

    def settle(self, reserved: float, outcome: ChatReply | ChatFailure | None) -> None:
        """Charge what a request used and free what it had put aside; None is a request that was never sent."""
        used = self._used(reserved, outcome) if outcome is not None else ApiUsage()
        with self._changed:
            self._reserved.remove(reserved)
            self._usage += used
            self._changed.notify_all()

    def _used(self, reserved: float, outcome: ChatReply | ChatFailure) -> ApiUsage:
        if isinstance(outcome, ChatFailure):
            return ApiUsage(
                num_requests=1,
                num_failed_requests=1,
                num_retries=outcome.num_retries,
                num_unmetered_requests=int(outcome.may_be_billed),
                cost=reserved if outcome.may_be_billed else 0.0,
            )
        usage = outcome.usage
        return ApiUsage(
            num_requests=1,
            num_retries=outcome.num_retries,
            num_unmetered_requests=int(usage is None),
            num_answers=len(outcome.answers),
            num_refusals=sum(answer.refused for answer in outcome.answers),
            num_prompt_tokens=usage.num_prompt_tokens if usage else 0,
            num_answer_tokens=usage.num_answer_tokens if usage else 0,
            cost=self._price(usage.num_prompt_tokens, usage.num_answer_tokens) if usage else reserved,
        )

    def _price(self, num_prompt_tokens: int, num_answer_tokens: int) -> float:
        config = self._config
        return (num_prompt_tokens * config.input_price + num_answer_tokens * config.output_price) / _PER
