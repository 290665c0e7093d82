"""The tracker of runs without an MLflow server."""

from components.errors import TrackingNotConfigured


class NoTracker:
    """A Tracker that publishes nothing; if `why_not` is given, every request raises TrackingNotConfigured with it."""

    def __init__(self, why_not: str | None = None) -> None:
        self._why_not = why_not

    def check(self) -> None:
        if self._why_not is not None:
            raise TrackingNotConfigured(self._why_not)

    def _ignore(self, *_: object, **__: object) -> None:
        self.check()

    open_run = publish_iteration = publish_evaluation = publish_checkpoint = publish_traces = _ignore
    publish_file = mark_files = finish_run = _ignore

    def remove_run(self, run_id: str) -> list[str]:
        self.check()
        return []

    def run_url(self, run_id: str) -> None:
        return None
