"""A request to Prefect's server that is away, or too busy to answer, waits for it."""

from collections.abc import Callable

import httpx
import pytest

from components.errors import PrefectUnavailable
from flows.prefect_runtime import retrying_transport
from flows.prefect_runtime.retrying_transport import PatientTransport


def answering(num_failures: int, error: type[httpx.TransportError]) -> Callable[[httpx.Request], httpx.Response]:
    failures = iter(range(num_failures))

    def handle(request: httpx.Request) -> httpx.Response:
        if next(failures, None) is not None:
            raise error("no answer")
        return httpx.Response(200)

    return handle


@pytest.mark.parametrize(
    "error", [httpx.ConnectError, httpx.ReadError, httpx.ReadTimeout, httpx.WriteTimeout, httpx.RemoteProtocolError]
)
def test_an_answer_that_comes_late_is_taken_and_one_that_never_comes_names_the_limit(
    error: type[httpx.TransportError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying_transport, "_DELAY_SECONDS", 0.01)
    request = httpx.Request("POST", "http://127.0.0.1:4200/api/flow_runs")
    late = PatientTransport(httpx.MockTransport(answering(3, error)), patience_seconds=60)
    assert late.handle_request(request).status_code == 200
    never = PatientTransport(httpx.MockTransport(answering(1000, error)), patience_seconds=0.1)
    with pytest.raises(PrefectUnavailable, match=r"for 0\.1 s \(resources.prefect_patience_seconds\)"):
        never.handle_request(request)


def test_a_mistake_of_the_request_is_no_outage() -> None:
    wrong = PatientTransport(httpx.MockTransport(answering(1, httpx.UnsupportedProtocol)), patience_seconds=60)
    with pytest.raises(httpx.UnsupportedProtocol):
        wrong.handle_request(httpx.Request("GET", "http://127.0.0.1:4200/api"))
