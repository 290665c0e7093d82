"""Addresses of MLflow's pages for a browser."""

_TRAINING_VIEW = "workflowType=machine_learning"
"""Without it MLflow shows its pages for language-model applications, which are empty here."""


def page_url(server_url: str, place: str = "") -> str:
    """A page of an MLflow server, in the view for training.

    **Example** `page_url("http://127.0.0.1:5000", "experiments/1")` is
    "http://127.0.0.1:5000/#/experiments/1?workflowType=machine_learning".
    """
    return f"{server_url.rstrip('/')}/#/{place}?{_TRAINING_VIEW}"
