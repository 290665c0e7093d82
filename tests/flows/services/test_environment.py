from pathlib import Path

import pytest

from flows.services.environment import environment, service_environment, without_proxy
from flows.services.status import MlflowAddress, PrefectAddress, S3Address, StackStatus

HOME = Path("/home/x/.troupe")
UP = StackStatus(
    home=HOME,
    prefect=PrefectAddress(api_url="http://127.0.0.1:4200/api", ui_url="http://127.0.0.1:4200"),
    mlflow=MlflowAddress(url="http://127.0.0.1:5000"),
    s3=S3Address(endpoint="http://127.0.0.1:8333", bucket="troupe"),
)


def test_clients_are_told_of_every_service_that_is_up() -> None:
    found = environment(UP)
    assert found["PREFECT_API_URL"] == "http://127.0.0.1:4200/api"
    assert found["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:5000"
    assert found["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:8333"
    assert found["AWS_SHARED_CREDENTIALS_FILE"] == str(HOME / "s3" / "credentials")
    assert found["MLFLOW_DISABLE_TELEMETRY"] == "true"


def test_nothing_is_said_of_services_that_are_down() -> None:
    assert environment(StackStatus(home=HOME)) == {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "TROUPE_HOME": str(HOME),
    }


def test_a_service_does_not_see_the_users_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = {
        "AWS_ACCESS_KEY_ID": "mine",
        "AWS_PROFILE": "mine",
        "PREFECT_API_KEY": "mine",
        "PREFECT_API_URL": "https://cloud",
        "MLFLOW_TRACKING_TOKEN": "mine",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for name, value in foreign.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KEPT", "yes")
    found = service_environment({"OWN": "1"})
    assert foreign.keys() & found.keys() == set()
    assert (found["KEPT"], found["OWN"]) == ("yes", "1")


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, "127.0.0.1,localhost"),
        ({"no_proxy": "intranet"}, "intranet,127.0.0.1,localhost"),
        ({"NO_PROXY": "127.0.0.1"}, "127.0.0.1,localhost"),
    ],
)
def test_this_machine_is_reached_past_any_proxy(known: dict[str, str], expected: str) -> None:
    assert without_proxy(known) == {"NO_PROXY": expected, "no_proxy": expected}
