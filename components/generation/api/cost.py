"""Usage and cost of an API, and the limit on the cost."""

import threading

from components.config import ApiConfig
from components.errors import BudgetSpent
from components.generation.api.chat import ChatFailure, ChatReply
from components.schema import ApiUsage

_PER = 1_000_000
"""Prices are per million tokens."""


class ApiAccount:
    """Counts the usage of one policy's API and holds back requests that could exceed `max_cost`. Thread-safe.

    A request reserves its maximum cost before it is sent, and is charged its actual cost when it ends. A request that the SDK
    retried after a timeout is charged once; a provider that bills every attempt is paid more than is counted here.

    **Example** prices 1 and 4, max_cost 0.01: a request of at most 2,000 prompt tokens and 8 answers of 200 tokens reserves
    (2,000 + 4 * 1,600) / 1e6 = 0.0084; a second one waits until the first has ended, and is sent if 0.0016 or less was spent.
    """

    def __init__(self, policy: str, config: ApiConfig) -> None:
        self._policy = policy
        self._config = config
        self._changed = threading.Condition()
        self._usage = self._taken = ApiUsage()
        self._reserved: list[float] = []

    @property
    def usage(self) -> ApiUsage:
        """Total usage so far, without requests under way."""
        with self._changed:
            return self._usage

    def take(self) -> ApiUsage:
        """Usage since the last call."""
        with self._changed:
            used, self._taken = self._usage - self._taken, self._usage
            return used

    def reserve(self, *, max_prompt_tokens: int, max_answer_tokens: int) -> float:
        """Reserve the maximum cost of a request and return it; waits while requests under way have reserved too much.

        Raises BudgetSpent when the remaining budget is too small.
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
        """Replace a reservation by the actual cost of its request; `outcome` None means that it was never sent."""
        used = self._count_usage(reserved, outcome) if outcome is not None else ApiUsage()
        with self._changed:
            self._reserved.remove(reserved)
            self._usage += used
            self._changed.notify_all()

    def _count_usage(self, reserved: float, outcome: ChatReply | ChatFailure) -> ApiUsage:
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
