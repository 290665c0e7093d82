"""What kills cost: a training of an agent's policy in Troupe, and TRL's documented loop beside it, killed at the same moments.

    python -m benchmarks.agent_kills [--steps 4] [--kills 20 35 50] [--arms troupe trl]

Each life ends by SIGKILL of all its processes once so many answers were sampled in it; then the same command begins the next
one, and the last one trains to the end. Troupe plays `agent_plan_path`, a program on the OpenAI SDK. TRL's GRPOTrainer cannot
play one: it samples one answer for each of the same boards, saves a checkpoint after each step, and goes on from the newest,
as its documentation says. Both train one tiny model from the same random weights. Against an undisturbed training of an arm:
answers beyond its number were lost and sampled again; and whether the final weights are equal.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.markdown import markdown
from benchmarks.origin import read_origin

NUM_PROBLEMS, GROUP_SIZE = 4, 4
POLL_SECONDS = 0.01
_SEED = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--kills", type=int, nargs="+", default=[20, 35, 50], help="after so many answers of a life")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--child", nargs=2, metavar=("ARM", "FOLDER"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        arm, folder = asked.child
        ARMS[arm](Path(folder), asked.steps)
        return
    origin = read_origin()
    print(f"{asked.steps} steps of {NUM_PROBLEMS} x {GROUP_SIZE} episodes; {origin['processor']}; {origin['commit']}")
    rows = []
    for arm in asked.arms:
        with tempfile.TemporaryDirectory(prefix="troupe-agent-kills-") as name:
            whole = train(arm, Path(name) / "whole", asked.steps, kills=[])
            cut = train(arm, Path(name) / "cut", asked.steps, kills=asked.kills)
        again, equal = cut.num_answers - whole.num_answers, "equal" if cut.digest == whole.digest else "other ones"
        rows.append([arm, str(cut.num_kills), str(whole.num_answers), str(again), equal])
    print(markdown(["", "kills", "answers", "sampled again", "final weights"], rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What a training came to over all its lives."""

    num_kills: int
    num_answers: int
    digest: str


def train(arm: str, folder: Path, num_steps: int, *, kills: Sequence[int]) -> Trained:
    """Train to the end, killed after so many answers of each life."""
    folder.mkdir()
    num_kills = sum([live(arm, folder, num_steps, kill) for kill in [*kills, None]])
    return Trained(
        num_kills=num_kills,
        num_answers=(folder / "answers").stat().st_size,
        digest=(folder / "digest").read_text(encoding="utf-8"),
    )


def live(arm: str, folder: Path, num_steps: int, kill: int | None) -> bool:
    """One life; whether it was killed. Raises RuntimeError if it fails by itself."""
    answers = folder / "answers"
    answers.touch()
    before = answers.stat().st_size
    command = [sys.executable, "-m", "benchmarks.agent_kills", "--steps", str(num_steps), "--child", arm, str(folder)]
    settled = {"TROUPE_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **settled}, stdout=log, stderr=log, start_new_session=True
        )
        while process.poll() is None:
            if kill is not None and answers.stat().st_size - before >= kill:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return True
            time.sleep(POLL_SECONDS)
    if process.returncode:
        raise RuntimeError(
            f"{arm} ended with {process.returncode}:\n{(folder / 'log').read_text(errors='replace')[-3000:]}"
        )
    return False


def note_answers(folder: Path, num_answers: int) -> None:
    """Count answers that were sampled, over all lives."""
    with (folder / "answers").open("ab") as file:
        file.write(b"." * num_answers)


def make_config() -> dict[str, Any]:
    """The boards and the model of both arms."""
    return {
        "seed": _SEED,
        "environment": {
            "name": "agent_plan_path",
            "options": {"size": 4, "min_distance": 2, "max_distance": 3},
            "max_turns": 3,
        },
        "agents": {"walker": {"policy": "team"}},
        "policies": {"team": {"base": "tiny"}},
        "warm_start": {"max_steps": 0},
        "rollout": {
            "mode": "independent",
            "num_problems": NUM_PROBLEMS,
            "group_size": GROUP_SIZE,
            "problems_per_block": NUM_PROBLEMS,
        },
        "algorithm": {"advantage": "grpo"},
        "evaluation": {"num_problems": 1, "problems_per_block": 1},
        "tracking": {"kind": "none"},
    }


def train_troupe(folder: Path, num_steps: int) -> None:
    """`troupe.train`, as documented."""
    import troupe
    from components.config import parse_config
    from components.generation.local.engine import TransformersGenerator

    sample = TransformersGenerator.generate_on_kept

    def count_and_sample(engine: TransformersGenerator, requests: Any, version: Any) -> Any:
        completions = sample(engine, requests, version)
        note_answers(folder, sum(map(len, completions)))
        return completions

    TransformersGenerator.generate_on_kept = count_and_sample  # type: ignore[method-assign]
    report = troupe.train(parse_config({**make_config(), "num_steps": num_steps}), run_id="kills")
    (folder / "digest").write_text(report.checkpoint_digest["team"], encoding="utf-8")


def train_trl(folder: Path, num_steps: int) -> None:
    """GRPOTrainer with a checkpoint after each step, from the newest one on."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    from components.config import parse_config
    from components.models.digests import model_digest
    from components.models.loading import prepare_model_folder
    from components.session.scenario import scenario_of

    scenario = scenario_of(parse_config({**make_config(), "num_steps": num_steps}))
    family, model_folder = scenario.family, folder / "model"
    if not model_folder.exists():
        prepare_model_folder(
            scenario.config.policies["team"], alphabet=family.alphabet(scenario.options), seed=_SEED, into=model_folder
        )
    problems = [
        family.problem(scenario.options, split="train", index=index, seed=_SEED) for index in range(NUM_PROBLEMS)
    ]

    def reward(completions: list[str], number: list[int], **_: Any) -> list[float]:
        return [
            float(family.build(problems[index]).apply("walker", text).solves)
            for index, text in zip(number, completions, strict=True)
        ]

    class CountingTrainer(GRPOTrainer):  # type: ignore[misc]
        def _generate(self, *arguments: Any, **also: Any) -> Any:
            made = super()._generate(*arguments, **also)
            note_answers(folder, NUM_PROBLEMS * GROUP_SIZE)
            return made

    prompts = [{"prompt": family.build(each).observe("walker").state, "number": n} for n, each in enumerate(problems)]
    trainer = CountingTrainer(
        model=AutoModelForCausalLM.from_pretrained(model_folder),
        reward_funcs=reward,
        args=GRPOConfig(
            output_dir=str(folder / "trl"),
            use_cpu=True,
            bf16=False,
            report_to=[],
            max_steps=num_steps,
            max_completion_length=8,
            per_device_train_batch_size=NUM_PROBLEMS * GROUP_SIZE,
            num_generations=GROUP_SIZE,
            save_strategy="steps",
            save_steps=1,
            seed=_SEED,
        ),
        train_dataset=Dataset.from_list(prompts * num_steps),
        processing_class=AutoTokenizer.from_pretrained(model_folder),
    )
    trainer.train(resume_from_checkpoint=any((folder / "trl").glob("checkpoint-*")) or None)
    (folder / "digest").write_text(model_digest(trainer.model), encoding="utf-8")


ARMS: Mapping[str, Any] = {"troupe": train_troupe, "trl": train_trl}

if __name__ == "__main__":
    main()
