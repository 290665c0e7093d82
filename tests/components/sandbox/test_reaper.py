"""What is left of a pool, as the daemon tells it."""

from typing import Any, cast

import docker
import requests

from components.machine.process_ids import this_process
from components.sandbox.docker_api import DockerApi
from components.sandbox.reaper import OWNER_LABEL, POOL_LABEL, remove_own


class BusyClient:
    """A daemon that is removing a container already, and says so for two listings."""

    def __init__(self) -> None:
        self.num_listings = 2

    def containers(self, **_: Any) -> list[dict[str, Any]]:
        self.num_listings -= 1
        labels = {OWNER_LABEL: str(this_process()), POOL_LABEL: "pool"}
        return [{"Id": "1" * 64, "Labels": labels}] if self.num_listings >= 0 else []

    def remove_container(self, container_id: str, **_: Any) -> None:
        response = requests.Response()
        response.status_code = 409
        raise docker.errors.APIError(f"removal of container {container_id} is already in progress", response=response)


class BusyApi:
    call = DockerApi.call

    def __init__(self) -> None:
        self._client = BusyClient()


def test_a_container_that_the_daemon_is_removing_is_still_there() -> None:
    api = cast(DockerApi, BusyApi())
    assert [remove_own(api, "pool") for _ in range(3)] == [1, 1, 0]


def test_containers_of_another_pool_are_left() -> None:
    assert remove_own(cast(DockerApi, BusyApi()), "another") == 0
