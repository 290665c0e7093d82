"""Waiting for a Prefect server that does not answer, up to a time limit."""

import httpx
from prefect.context import SyncClientContext

from components.errors import PrefectUnavailable
from components.machine.outages import Outage

_DELAY_SECONDS = 1.0
_AWAY = (
    *(httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError),
    *(httpx.ConnectTimeout, httpx.ReadTimeout, httpx.WriteTimeout),
)
"""A server that is there and too busy to answer is waited for as well. Prefect's client sends these requests again itself."""


class PatientTransport(httpx.BaseTransport):
    """Sends requests through `inner`, and retries while the server is away.

    Raises PrefectUnavailable after the time limit. Prefect's client retries only errors of httpx, so it does not retry this.
    """

    def __init__(self, inner: httpx.BaseTransport, patience_seconds: float) -> None:
        self._inner = inner
        self._outage = Outage("Prefect", patience_seconds)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        while True:
            try:
                response = self._inner.handle_request(request)
            except _AWAY as error:
                if not self._outage.backoff(_DELAY_SECONDS, since=self._outage.record_failure()):
                    raise PrefectUnavailable(
                        f"Prefect at {request.url.copy_with(path='/api', query=None, userinfo=None)} does not answer, for "
                        f"{self._outage.patience_seconds:g} s (resources.prefect_patience_seconds); start it with `troupe up`, "
                        "then the same command continues from here"
                    ) from error
            else:
                self._outage.record_success()
                return response

    def close(self) -> None:
        self._inner.close()


def retry_prefect_outages(patience_seconds: float) -> None:
    """Make the flow run of this context and its child runs wait this long for a server that does not answer."""
    context = SyncClientContext.get()
    assert context is not None, "there is no flow run in this context"
    client = context.client._client
    if not isinstance(client._transport, PatientTransport):
        # The client's own transport has the user's certificates and proxies.
        client._transport = PatientTransport(client._transport, patience_seconds)
