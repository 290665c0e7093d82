"""Access to an MLflow server. MLflow is imported at the first request, because that takes a second."""

import http.client
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from http import HTTPStatus
from typing import Any

from components.errors import ConfigurationError, PermanentError, TrackingUnavailable

REQUEST_TIMEOUT_SECONDS = 3


class MlflowServer:
    """One MLflow server. `account` is entered around all requests: MLflow's client reads credentials from the environment at
    each of them.
    """

    def __init__(self, url: str, *, account: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(f"tracking.url {url!r}: give the address of an MLflow server, http(s)://host:port")
        self.url = url.rstrip("/")
        self._account = account

    @cached_property
    def client(self) -> Any:
        """MLflow's own client."""
        return new_client(self.url)

    @contextmanager
    def requests(self) -> Iterator[None]:
        """Within the block requests have their credentials, and errors are ours."""
        with self._account(), name_errors(self.url):
            yield


def check_answers(url: str) -> None:
    """Raise TrackingUnavailable while the server is away, ConfigurationError if its address or the credentials are wrong."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=REQUEST_TIMEOUT_SECONDS):
            return
    except urllib.error.HTTPError as error:
        if error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise ConfigurationError(
                f"tracking.url {url}: the server answers {error.code} {error.reason}; set "
                "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
            ) from error
        if error.code < HTTPStatus.INTERNAL_SERVER_ERROR:
            return
        raise _unavailable(url, error) from error
    except http.client.BadStatusLine as error:
        raise ConfigurationError(
            f"tracking.url {url}: what listens there speaks no HTTP; write http(s)://host:port of an MLflow server"
        ) from error
    except (ValueError, http.client.InvalidURL) as error:
        raise ConfigurationError(f"tracking.url {url!r} is no address ({error}); write http(s)://host:port") from error
    except OSError as error:
        if isinstance(reason := getattr(error, "reason", error), socket.gaierror) and reason.errno == socket.EAI_NONAME:
            raise ConfigurationError(
                f"tracking.url {url}: there is no host of that name; write http(s)://host:port of an MLflow server"
            ) from error
        raise _unavailable(url, error) from error


def new_client(url: str) -> Any:
    """A client with a short timeout unless the user sets one. MLflow's defaults wait 120 s and retry for minutes; the outbox
    retries instead."""
    from mlflow import MlflowClient
    from mlflow import environment_variables as settings

    for setting, value in (
        (settings.MLFLOW_HTTP_REQUEST_TIMEOUT, REQUEST_TIMEOUT_SECONDS),
        (settings.MLFLOW_HTTP_REQUEST_MAX_RETRIES, 0),
        (settings.MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT, True),
    ):
        if not setting.is_set():
            setting.set(value)
    return MlflowClient(url, registry_uri=url)


def mlflow_exception() -> Any:
    """MLflow's one exception class."""
    from mlflow.exceptions import MlflowException

    return MlflowException


@contextmanager
def tolerating(error_code: str) -> Iterator[None]:
    """Ignore this error, which means that another process was first."""
    try:
        yield
    except mlflow_exception() as error:
        if error.error_code != error_code:
            raise


def is_away(error: Any) -> bool:
    """Whether the status of an MlflowException says that the server is down, overloaded or failing."""
    status = int(error.get_http_status_code())
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS


def _unavailable(url: str, cause: object) -> TrackingUnavailable:
    reason = str(cause).rpartition("): ")[2].rstrip("\"')")  # the innermost message: urllib3 nests them
    return TrackingUnavailable(f"MLflow at {url} does not answer ({reason}); start it with `troupe up`")


@contextmanager
def name_errors(url: str) -> Iterator[None]:
    """Translate MLflow's one exception class into ours, by its status."""
    try:
        yield
    except mlflow_exception() as error:
        if is_away(error):
            raise _unavailable(url, error) from error
        raise PermanentError(f"MLflow at {url} refused: {error}") from error
