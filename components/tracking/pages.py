"""Addresses of MLflow's pages for a browser."""


def page_url(server_url: str, place: str = "") -> str:
    """A page of an MLflow server, in the view for training; the default view, for language-model applications, is empty.

    **Example** `page_url("http://127.0.0.1:5000", "experiments/1")` is
    "http://127.0.0.1:5000/#/experiments/1?workflowType=machine_learning".
    """
    return f"{server_url.rstrip('/')}/#/{place}?workflowType=machine_learning"
