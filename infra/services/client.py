"""Connects a process to the local services."""

import os

from components.home import HOME
from components.session.vllm_models import URLS_VARIABLE, spelled_urls
from infra.services.environment import environment, user_accounts, without_proxy
from infra.services.stack import status
from infra.services.status import StackStatus
from infra.services.vllm_server import key_file
from infra.services.vllm_stack import vllm_addresses


def join_local_services() -> StackStatus:
    """Point this process at the running local services, and return those it joined.

    A service is joined unless PREFECT_API_URL, MLFLOW_TRACKING_URI or AWS_ENDPOINT_URL_S3 names another server; joining one
    hides the user's own account of its kind from this process. Call it before importing prefect; a second call is harmless.
    """
    found = status(HOME)
    joined = StackStatus(
        home=found.home,
        prefect=found.prefect if found.prefect and _may_be("PREFECT_API_URL", found.prefect.api_url) else None,
        mlflow=found.mlflow if found.mlflow and _may_be("MLFLOW_TRACKING_URI", found.mlflow.url) else None,
        s3=found.s3 if found.s3 and _may_be("AWS_ENDPOINT_URL_S3", found.s3.endpoint) else None,
        worker=found.worker,
    )
    for hidden in user_accounts(joined):
        os.environ.pop(hidden, None)
    if found.prefect and not joined.prefect:
        # Another server must not be sent the password that `troupe up` wrote into prefect.toml.
        os.environ.setdefault("PREFECT_API_AUTH_STRING", "")
    servers = spelled_urls(vllm_addresses(HOME).values(), key_file(HOME)) if URLS_VARIABLE not in os.environ else {}
    os.environ.update({**environment(joined), **servers, **without_proxy(os.environ)})
    return joined


def _may_be(variable: str, address: str) -> bool:
    """Whether the user's `variable` is unset or equal to `address`."""
    return os.environ.get(variable) in (None, "", address)
