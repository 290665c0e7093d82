"""What heals a missing or damaged object of a run: a command, a deletion, or a copy from elsewhere."""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field

from components.identity import EVALUATION, INTERACTIONS
from components.runs.expected_records import UPDATE, Update
from components.runs.pipeline import Pipeline
from components.runs.run import SHARED
from components.runs.run_survey import Survey, step_in
from components.runs.step_records import stage_of, step_of, step_record_key
from components.runs.stored_records import Problem

_BY_KIND: Mapping[str, str] = {
    "config.json": "restore it from a backup: it cannot be computed again, because it says what the run was started with",
    "lineages": "restore it from a backup: it cannot be computed again, because it alone says which steps count",
    "sessions": "{delete}: it says only how one session went",
    "flow_runs": "{delete}: it serves only a retry of that flow run",
    "history": "{delete}: it repeats the records of its steps, which are read instead",
    "collected": "restore it from a backup: it alone says which checkpoints `troupe gc` removed",
    "outbox": "{delete}: MLflow misses its report, or has it already",
    "evaluations": "{delete} and the manifest of its evaluation, and {resume} evaluates again",
    "dropped": "{delete}, then `troupe rm {run} --lineage {number}{option}` takes that restart back again",
}
"""By the part of the key behind the run's name."""
_SHARED = f"runs/{SHARED}/"
_SAVES_WORK = re.compile(r".*/(blocks|tools)/[^/]+")
_ATTEMPT = re.compile(r".*/attempts/[^/]+")


@dataclass(kw_only=True)
class Remedies:
    """The remedies of one run's problems, all of which are known: what a stage computes again needs its inputs whole."""

    found: Survey
    pipeline: Pipeline
    option: str
    """The command-line option that opens the store."""
    removed: Collection[Update]
    lost: Set[str]
    """The keys of payloads and folders that are incomplete, and of manifests that cannot be read."""
    owners: Mapping[str, str]
    """Payload or folder -> the record that it was made with."""
    _broken: dict[int, set[str]] = field(init=False, default_factory=lambda: defaultdict(set))
    """Step -> its stages whose results are incomplete."""
    _lost_for_good: set[str] = field(init=False, default_factory=set)
    """Of `lost`, without what runs share."""

    def __post_init__(self) -> None:
        for key in self.lost:
            maker = self.owners.get(key, key)
            if not maker.startswith(_SHARED):
                self._lost_for_good.add(key)
            if "/steps/" in maker and step_in(maker) is not None and self.found.counts(maker):
                self._broken[step_of(maker)].add(stage_of(maker))

    def of(self, problem: Problem) -> str:
        """What to do about a problem."""
        if problem.named_by is None:
            return self._of_record(problem)
        maker = self.owners.get(content_name(problem.key), problem.named_by)
        if _SAVES_WORK.fullmatch(maker):
            return f"delete {maker}: it saves work that is done again"
        if maker.startswith(_SHARED):
            return f"delete {maker}, and {self._resume()} makes it again"
        step = step_in(maker)
        assert step is not None, f"{maker} names content"
        return self._restart(step, UPDATE if "/iterations/" in maker else stage_of(maker))

    def _of_record(self, problem: Problem) -> str:
        key, delete = problem.key, f"delete {problem.key}" if problem.state == "damaged" else "nothing needs it"
        if key.startswith("index/"):
            return (
                f"{self._resume()} lists the run again"
                if problem.state == "missing"
                else f"{delete}, then {self._resume()}"
            )
        if key.startswith(_SHARED):
            again = f"{self._resume()} makes it again"
            return again if problem.state == "missing" else f"{delete}, and {again}"
        if _ATTEMPT.fullmatch(key):
            return f"{delete}: it only counts an attempt"
        if _SAVES_WORK.fullmatch(key):
            return f"{delete}: it saves work that is done again"
        kind = key.split("/")[2]
        if kind == "steps":
            return self._of_result(problem)
        if kind == "iterations":
            return self._of_step_record(problem)
        number = key.rpartition("/")[2].removesuffix(".json").lstrip("0")
        texts = {"delete": delete, "resume": self._resume(), "run": self.found.run_id, "option": self.option}
        return _BY_KIND[kind].format(**texts, number=number)

    def _of_result(self, problem: Problem) -> str:
        """The remedy for the manifest of a stage."""
        step, stage = step_of(problem.key), stage_of(problem.key)
        first = "" if problem.state == "missing" else f"delete {problem.key}, and "
        if stage == INTERACTIONS and step < self.found.num_finished:
            return "restore it from a backup, or leave it: nothing but its page is made of it"
        if stage == INTERACTIONS:
            return f"{first}{self._resume()} draws it again"
        if stage != EVALUATION:
            return self._restart(step, stage)
        if self.found.config is not None and not _is_evaluated_by_resume(self.found, step):
            return f"restore it from a backup: {self._resume()} does not evaluate step {step}"
        return f"{first}{self._resume()} evaluates again"

    def _of_step_record(self, problem: Problem) -> str:
        """The record follows from the results of its step, if these are whole."""
        step = step_in(problem.key)
        assert step is not None, f"{problem.key} is of a step"
        if not self._broken[step] and not any(each.step == step for each in self.removed):
            first = "" if problem.state == "missing" else f"delete {problem.key}, and "
            return f"{first}{self._resume()} writes it again from the results of its stages"
        return f"restore it from a backup, or {self._restart(step, UPDATE)}"

    def _restart(self, step: int, stage: str) -> str:
        """The restart that computes the result of a stage again, or the nearest one that is possible."""
        if stage not in self.pipeline.restartable:
            return "restore it from a backup: no restart computes it again"
        if self.found.address is None:
            return "restore the records of its restarts first: without them nobody knows which steps count"
        if self._lost_at_begin(step) is None:
            return f"{self._resume(self._first_whole(step, stage), step)} computes it again"
        nearest = next((at for at in range(step - 1, -1, -1) if self._lost_at_begin(at) is None), None)
        why = f"it cannot be computed again as it was, because {self._lost_at_begin(step)}: restore it from a backup"
        if nearest is None:
            return why
        return f"{why}, or {self._resume(self._first_whole(nearest, UPDATE), nearest)} trains again from there"

    def _first_whole(self, step: int, stage: str) -> str:
        """The last stage up to `stage` whose inputs in this step are whole."""
        names = self.pipeline.restartable
        at = names.index(stage)
        while broken := [need for need in self.pipeline[names[at]].needs if need in self._broken[step]]:
            at = min(map(names.index, broken))
        return names[at]

    def _lost_at_begin(self, step: int) -> str | None:
        """Why no restart can begin at this step, in words. What a resume makes again by itself is no reason."""
        overlaps = self.found.config is not None and self.found.config.rollout.overlap == "one_step" and step > 0
        for begun in (step - 1, step) if overlaps else (step,):
            if any(update.step == begun - 1 for update in self.removed):
                return f"`troupe gc` removed the checkpoint after {begun} updates"
            record = self._record_after(begun)
            folders = {
                key for each in self.found.checkpoints.get(record, ()) for key in (each.folder, each.base) if key
            }
            if not folders or {record, *folders} & self._lost_for_good:
                return f"the checkpoint after {begun} updates is incomplete, too"
        return None

    def _record_after(self, num_updates: int) -> str:
        """The record that names the checkpoints after so many updates."""
        if num_updates == 0:
            return next(reversed(self.found.warm_starts), "")
        assert self.found.address is not None, "nothing is said of restarts without their records"
        return step_record_key(self.found.address, num_updates - 1)

    def _resume(self, stage: str | None = None, step: int | None = None) -> str:
        run_id, config = self.found.run_id, self.found.config
        restart = "" if stage is None else f" --from-stage {stage} --step {step}"
        if step is not None and config is not None and step >= config.num_steps:
            restart += f" --steps {self.found.num_finished}"
        return f"`troupe resume {run_id}{restart}{self.option}`"


def content_name(key: str) -> str:
    """The key that a reference names: the payload itself, or the folder of a file."""
    return "/".join(key.split("/")[:2]) if key.startswith("folders/") else key


def _is_evaluated_by_resume(found: Survey, step: int) -> bool:
    """As the flow decides: the first, every `evaluation.every`-th and the last step."""
    assert found.config is not None, "the configuration is known"
    every = found.config.evaluation.every
    return step in (0, max(found.num_finished, found.config.num_steps)) or (every > 0 and step % every == 0)
