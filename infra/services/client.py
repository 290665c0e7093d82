"""How a command of this process finds the local services."""

import os

from infra.services.environment import AWS_ACCOUNT, MLFLOW_ACCOUNT, PREFECT_ACCOUNT, environment, without_proxy
from infra.services.stack import status
from infra.services.status import StackStatus
from infra.services.vllm_server import key_file
from infra.services.vllm_stack import vllm_addresses
from tasks.home import HOME
from tasks.served import URLS_VARIABLE, spelled_urls


def join_local_services() -> StackStatus:
    """Point this process at the local services that are up, and return them.

    What the user has set stays: a service is joined only where PREFECT_API_URL, MLFLOW_TRACKING_URI or
    AWS_ENDPOINT_URL_S3 names no other. Joining one hides the user's own account of its kind from this process. Call it
    before anything imports prefect; a second call is harmless.
    """
    found = status(HOME)
    joined = StackStatus(
        home=found.home,
        prefect=found.prefect if found.prefect and _may_be("PREFECT_API_URL", found.prefect.api_url) else None,
        mlflow=found.mlflow if found.mlflow and _may_be("MLFLOW_TRACKING_URI", found.mlflow.url) else None,
        s3=found.s3 if found.s3 and _may_be("AWS_ENDPOINT_URL_S3", found.s3.endpoint) else None,
        worker=found.worker,
    )
    accounts = ((PREFECT_ACCOUNT, joined.prefect), (MLFLOW_ACCOUNT, joined.mlflow), (AWS_ACCOUNT, joined.s3))
    for hidden in (name for names, service in accounts if service for name in names):
        os.environ.pop(hidden, None)
    if found.prefect and not joined.prefect:
        # Another server must not be given the password that `troupe up` wrote into prefect.toml.
        os.environ.setdefault("PREFECT_API_AUTH_STRING", "")
    servers = spelled_urls(vllm_addresses(HOME).values(), key_file(HOME)) if URLS_VARIABLE not in os.environ else {}
    os.environ.update({**environment(joined), **servers, **without_proxy(os.environ)})
    return joined


def addresses() -> dict[str, str | None]:
    """The pages and endpoints that a person may open, by name; None where a service is down."""
    found = status(HOME)
    return {
        "Prefect": found.prefect.ui_url if found.prefect else None,
        "S3": found.s3.endpoint if found.s3 else None,
    }


def _may_be(variable: str, address: str) -> bool:
    """Whether the user's `variable` names no other server than `address`."""
    return os.environ.get(variable) in (None, "", address)
