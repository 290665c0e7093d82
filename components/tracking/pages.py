"""Addresses of MLflow's pages for a browser."""

LIST_VIEW = "troupe"
"""The view of an experiment's list of runs, with the columns that its runs have named."""


def page_url(server_url: str, place: str = "") -> str:
    """A page of an MLflow server, in the view for training; the default view, for language-model applications, is empty.

    **Example** `page_url("http://127.0.0.1:5000", "experiments/1")` is
    "http://127.0.0.1:5000/#/experiments/1?workflowType=machine_learning".
    """
    return f"{server_url.rstrip('/')}/#/{place}?workflowType=machine_learning"


def list_url(run_url: str) -> str:
    """The list of all runs of the experiment that the run of this page is in, with their success and what differs.

    **Example** the list of "http://127.0.0.1:5000/#/experiments/1/runs/7d08?workflowType=machine_learning" is
    "http://127.0.0.1:5000/#/experiments/1/runs?workflowType=machine_learning&viewStateShareKey=troupe".
    """
    place, _, query = run_url.partition("?")
    return f"{place.rpartition('/')[0]}?{query}&viewStateShareKey={LIST_VIEW}"
