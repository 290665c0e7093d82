"""Every benchmark that a document names runs, at its smallest size. What it measures here is not looked at."""

import re
import shlex
from pathlib import Path

import pytest

from tests.integration.trainings import ROOT, Trainings
from tests.smollm import needs_smollm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
MEASURED = ROOT / "benchmarks" / "measured"
SMALLEST = {
    # name, and its kind where it has several: (arguments, what the last lines that it prints hold)
    "orchestration": ("--preset tiny --steps 4", r"overhead: -?\d\.\d+ s"),
    "preset_minutes": ("--presets tiny --steps 2 --home {home}", r"\| tiny \| 3 \| \d"),
    "sandbox": (
        "--repeats 1 --seconds 0.2 --jobs 20 --one-shots 1",
        r"20 mixed jobs, 1 hostile, 4 at once: 0 wrong, 0 not run.*\n.*\nboxes left: 0",
    ),
    "rollout": ("--shape tiny --problems 2 --repeats 1 --group-size 2", r"generate +\d+ +1\.00"),
    "gateway_cost": ("--sessions 2 --calls 3 --answer-tokens 4", r"\| exact \|[^\n]*\n\| waves \|[^\n]*\nrequired: "),
    "agent_kills": ("--steps 2 --kills 10", r"\| troupe \| 1 \| \d+ \| 0 \| equal \|\n\| trl \| 1 \|"),
    "versus_trl": ("--quick --problems 4 --arms troupe 'trl tuned'", r"troupe's step: \d"),
    "overlap": ("--steps 2 --repeats 1 --problems 8", r"with overlap over without: \d"),
    "game_boy": (
        "--steps 160 --games 1 --processes 1 2 --repeats 1 --decisions 40 --soak-minutes 0.01",
        r"\| 2 \| drawn[^\n]*\n\| twin[^$]*\| all \| 40 \| \d+\.\d[^$]*minute 0\.0: \d+\.\d MiB",
    ),
    "hybrid_learning": (
        "--most-steps 8192 --episodes 4 --no-emulator",
        r"\| greedy, seed 0 \| twin \|[^\n]*\n\| random, seed 0 \| twin \|",
    ),
    "hybrid_learning --network cnn": (
        "--most-steps 2048 --episodes 4",
        r"\| greedy, seed 0 \| \d[^\n]*\n\| random, seed 0 \| \d\.\d\d",
    ),
    "hybrid_modes": (
        "--seeds 1 --episodes 2 --policy-steps 4096 --place emulator --modes RL_ONLY BALANCED",
        r"holds: 4,096 competent: share of BALANCED",
    ),
    "promotion_years": ("--years 2", r"run 100 of its year: [^\n]*\nequal models, [^\n]* of 2 years"),
    "soak": ("--steps 20 --nights 0", r"grown by 10% or more: .*\nnights beside it: 0"),
    "scaling": ("--axes agents --steps 2 --points 2", r"agents[^\n]*\n1 [^\n]*\n2 "),
    "arms": (
        "--games tiny --runs team-grpo --seeds 1 --budget-tokens 1 --home {home} --set evaluation.problems_per_block=500",
        r"\| team, GRPO \|",
    ),
    "credit": ("--games tiny --seeds 1 --steps 1 --decisions 2 --continuations 2 --home {home}", r"\*ceiling\*"),
    "populations": (
        "--games kuhn 'public_goods, mixed' --seeds 1 --steps 2 --home {home}",
        r"\| seed 0 \| 2 \|[^$]*by OpenSpiel u\d < u\d < u\d[^$]*\| mixed \|",
    ),
    "trading": (
        "--seeds 1 --steps 1 --problems 1 --choosing 1 --home {home} --set rollout.num_problems=2 rollout.group_size=2 "
        "'policies.first={{base: tiny, tiny: {{max_position_embeddings: 1024}}, prompt_format: compact}}'",
        r"alone, seed 0: 1 steps[^$]*together, seed 0: 1 steps[^$]*second in both seats: constant",
    ),
    "memory": (
        "--cells 64 --vocabulary 2000 --width 64 --layers 2 --repeats 1",
        r"\| frozen layer, float32 \|[^$]*\| trained update, float32 \| 32 x 2,000 x 64 \|",
    ),
    "rows": ("--columns 1024 --repeats 1", r"\| 1,024 \|"),
    "pretrained": (f"--list --home {MEASURED / 'pretrained'}", r"Verdict:"),  # test_smollm.py trains and plays
}
TOO_SLOW = r"MISSED|FAILED: .*(jobs/s at|times one-shot)"
"""How a benchmark that ends with 1 says that nothing but its speed is wrong."""


def test_there_is_a_smallest_size_for_every_benchmark_of_a_document() -> None:
    documents = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {name for each in documents for name in re.findall(r"python -m\s+benchmarks\.(\w+)", each.read_text())}
    assert named == {name.split()[0] for name in SMALLEST}


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_smollm if name == "pretrained" else ()) for name in SMALLEST]
)
def test_a_benchmark_runs_at_its_smallest_size(name: str, trainings: Trainings, tmp_path: Path) -> None:
    arguments, told = SMALLEST[name]
    output = tmp_path / "output"
    benchmark = [*name.split(), *shlex.split(arguments.format(home=tmp_path / "home"))]
    ended = trainings.run({"benchmark": benchmark, "output": str(output)})
    said = output.read_text()
    assert re.search(told, said), said
    assert ended.code == 0 or (ended.code == 1 and re.search(TOO_SLOW, said)), said
