"""A Prefect server that goes away for a while costs a run time, and one that stays away ends it with a name."""

import httpx
from prefect.context import SyncClientContext

from components.errors import PrefectUnavailable
from components.patience import Outage

_DELAY_SECONDS = 1.0
_AWAY = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ReadError, httpx.RemoteProtocolError)


class PatientTransport(httpx.BaseTransport):
    """Sends requests through `inner`, again and again while the server is away.

    Raises PrefectUnavailable when patience is at its end; Prefect's client, which retries what httpx raises, lets it pass.
    """

    def __init__(self, inner: httpx.BaseTransport, patience_seconds: float) -> None:
        self._inner = inner
        self._outage = Outage("Prefect", patience_seconds)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The server's response to `request`."""
        while True:
            try:
                response = self._inner.handle_request(request)
            except _AWAY as error:
                if not self._outage.waited(_DELAY_SECONDS, since=self._outage.began_at()):
                    raise PrefectUnavailable(
                        f"Prefect at {request.url.copy_with(path='/api', query=None, userinfo=None)} does not answer, for "
                        f"{self._outage.patience_seconds:g} s (resources.prefect_patience_seconds); start it with `troupe up`, "
                        "then the same command goes on from here"
                    ) from error
            else:
                self._outage.over()
                return response

    def close(self) -> None:
        """Close what lies below."""
        self._inner.close()


def be_patient_with_prefect(patience_seconds: float) -> None:
    """From now on the flow run of this context, and what runs below it, waits so long for a server that does not answer."""
    context = SyncClientContext.get()
    assert context is not None, "no flow run is being worked on in this context"
    client = context.client._client
    if not isinstance(client._transport, PatientTransport):
        # The transport that the client has made for itself knows the user's certificates and proxies.
        client._transport = PatientTransport(client._transport, patience_seconds)
