"""Policies at addresses that programs ask, and that this process asks in the same way. Calls are not recorded."""

from collections.abc import Mapping

from components.gateway.base import AgentRequest
from components.gateway.calls import AgentCall, UnkeptCalls
from components.gateway.gateway import Gateway, Sample, ServedPolicy
from components.gateway.server import Entrance, GatewayServer
from components.gateway.sessions import AgentSession
from components.machine.closeable import Closeable

MOST_KEPT = 4096
"""Answers that are remembered, so that the next turn of a conversation continues what the model has read."""


class Endpoint(Closeable):
    """Answers with the temperature, seed and length that are asked for, until it is closed.

    **Example** `Endpoint({"team": served}, sample, seed=0).listen("127.0.0.1", 8001)` is `http://127.0.0.1:8001/v1`.
    """

    def __init__(self, models: Mapping[str, ServedPolicy], sample: Sample, *, seed: int, num_at_once: int = 1) -> None:
        """`models` by the names that are asked for; they may change between two answers. `seed` decides the draws of requests
        without one of their own. `sample` is asked by `num_at_once` threads."""
        self._gateway = Gateway(models=models, sample=sample, seed=seed, wishes="honoured", num_at_once=num_at_once)
        self._session = AgentSession(name="served", journal=UnkeptCalls(), most_kept=MOST_KEPT)
        self._server: GatewayServer | None = None

    def listen(
        self,
        host: str,
        port: int,
        key: str | None = None,
        *,
        names: Mapping[str, str] | None = None,
        sub_agents: str = "",
    ) -> str:
        """Take requests at one more address; its URL for clients of OpenAI. `port` 0 is a free one; `key` None asks for none.
        `names` are the models by further names, `sub_agents` is that of clients' sub-agents (see `Seat`).

        Raises ConfigurationError.
        """
        self._server = self._server or GatewayServer(self._gateway)
        entrance = Entrance.for_one(self._session, key, models=names or {}, sub_agents=sub_agents)
        return f"{self._server.listen(host, port, entrance)}/v1"

    def ask(self, request: AgentRequest) -> AgentCall:
        """The answer to a request of this process. Raises RequestRefused, and what the engine raises."""
        return self._gateway.answer(self._session, request, lambda: True).call

    def count_tokens(self, request: AgentRequest) -> int:
        """The tokens of its prompt. Raises RequestRefused."""
        return self._gateway.count_tokens(request)

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            self._server = None
