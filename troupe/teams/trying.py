"""What the policies of a configuration answer before any training, on a few of its training problems."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from components.config import RunConfig, StoreConfig, TrackingConfig
from components.errors import ConfigurationError, MalformedAction
from components.evaluation.suites import different_problems
from components.frozen import Frozen
from components.machine.scratch import scratch_folder
from components.methods.first_checkpoints import initial_policies
from components.rewards.own_rewards import CustomReward
from components.rollout.lessons import quote_answer, remedy_of_malformed
from components.rollout.play import ProblemProgress, block_progress, play
from components.rollout.rules import SamplingRules, Start
from components.runs.run import Run
from components.schema import Candidate, Episode, Node, Problem
from components.session.prompt_texts import prompt_of_an_api
from components.session.scenario import Scenario, scenario_of
from components.session.session import Session
from components.text.escaping import printable
from components.text.think_tags import without_thinking
from flows.preflight.checks import check_before_trying
from flows.preflight.contract import check_contract
from flows.preflight.prompts import warnings_of_instructions

NUM_PROBLEMS = 16
"""Tried unless the user says how many."""
Verdict = Literal["right", "not right", "malformed", "no answer", "not scored"]


class TriedAnswer(Frozen):
    """One answer: `right` if the problem is solved after it, with the reader's `reason` where it was refused."""

    problem: str
    turn: int
    agent: str
    text: str
    verdict: Verdict
    reason: str | None
    reward: float


class TriedAgent(Frozen):
    """The first prompt of an agent as its policy reads it, and the shares of its answers."""

    prompt: str
    reads_instructions: bool
    """A compact policy sees the text of the state alone."""
    num_answers: int
    right: float
    malformed: float
    no_answer: float


class Trial(Frozen):
    """What `troupe try` reports."""

    preset: str
    environment: str
    num_problems: int
    num_solved: int
    agents: dict[str, TriedAgent]
    answers: tuple[TriedAnswer, ...]
    remarks: tuple[str, ...]
    """What stands in the way of learning, with remedies."""


def try_policies(
    config: RunConfig,
    *,
    num_problems: int | None = None,
    begin: Callable[[int], None] = lambda num_problems: None,
    progress: ProblemProgress = lambda done, total: None,
) -> Trial:
    """Let the policies before training play the first training problems, one answer a node, and report.

    They answer as in training, at its temperature. Models of base "tiny" are built and cloned first. Nothing is kept, and no
    services are needed. `num_problems` None is at most 16. `begin` is called with their number after all checks. Raises
    ConfigurationError.
    """
    if not config.method.writes_answers:
        raise ConfigurationError(
            "hybrid: its player presses buttons before it has learned anything; `troupe try` is for policies that write"
        )
    with TemporaryDirectory(prefix="try-", dir=scratch_folder()) as folder:
        config = config.model_copy(
            update={
                "store": StoreConfig(kind="local", root=str(Path(folder) / "store")),
                "tracking": TrackingConfig(kind="none"),
            }
        )
        scenario = scenario_of(config)
        check_before_trying(scenario)
        problems = training_problems(scenario, num_problems)
        with Session(Run(run_id="try", config=config), scenario=scenario) as session:
            session.toolbox.open()
            check_contract(scenario, session.toolbox)
            begin(len(problems))
            return report_play(session, *play_untrained(session, problems, progress))


def training_problems(scenario: Scenario, num_problems: int | None) -> Sequence[Problem]:
    """The first `num_problems` different training problems; None: at most 16. Raises ConfigurationError if there are fewer."""
    most = NUM_PROBLEMS if num_problems is None else num_problems
    found = different_problems("train", scenario.family, scenario.options, num_problems=most, seed=scenario.config.seed)
    if num_problems is not None and len(found) < num_problems:
        raise ConfigurationError(f"--problems {num_problems}: there are only {len(found)} training problems")
    return found


def play_untrained(
    session: Session, problems: Sequence[Problem], progress: ProblemProgress
) -> tuple[tuple[Episode, ...], dict[str, str]]:
    """An episode of each problem by the policies before training, and the first prompt of each agent."""
    from tasks.refresh_weights import refresh_weights

    config, scenario = session.config, session.scenario
    router = session.router(refresh_weights.fn(session, 0, initial_policies(session)))
    rules = SamplingRules(
        turn_order=scenario.turn_order,
        max_turns=config.environment.max_turns,
        group_size=1,
        temperature=config.rollout.temperature,
        seed=config.seed,
        purpose=("evaluate", "train"),
    )
    with block_progress(progress, 0, len(problems), len(problems)):
        episodes = play(
            [Start(problem=problem, episode=0) for problem in problems],
            rules,
            family=scenario.family,
            router=router,
            rubric=scenario.training_rubric,
            tools=session.toolbox.tools(),
        )
    first = {node.group.agent: node for episode in reversed(episodes) for node in reversed(episode.nodes)}
    return episodes, {role: read_prompt(session, node) for role, node in first.items()}


def read_prompt(session: Session, node: Node) -> str:
    """The prompt of `node` as text."""
    if session.config.policies[node.policy].api is not None:
        return prompt_of_an_api(node.prompt_tokens)
    return session.engines.of(node.policy).tokenizer.decode(node.prompt_tokens)


def report_play(session: Session, episodes: Sequence[Episode], prompts: dict[str, str]) -> Trial:
    """The report of these episodes, whose agents read `prompts` first."""
    config, scenario = session.config, session.scenario
    own = scenario.own_rewards
    told = [answer for episode in episodes for answer in read_answers(episode, own)]
    candidates: dict[str, list[Candidate]] = {}
    for episode in episodes:
        for node in episode.path:
            candidates.setdefault(node.group.agent, []).append(node.candidates[0])
    policies = {role: config.policies[agent.policy] for role, agent in config.agents.items()}
    agents = {
        role: read_shares(
            role, told, prompts[role], reads_instructions=policy.prompt_format == "chat" or policy.api is not None
        )
        for role, policy in policies.items()
        if role in prompts
    }
    remarks = [*warnings_of_instructions(scenario)]
    for role, found in agents.items():
        malformed = [each for each in candidates[role] if each.outcome.error is not None]
        if 2 * len(malformed) > found.num_answers:
            remarks.append(f"{role}: {remedy_of_malformed(role, malformed, config)}")
    failed = [episode.error for episode in episodes if episode.error is not None]
    remarks += [f"{len(failed)} of {len(episodes)} problems could not be played: {failed[0]}"] if failed else []
    return Trial(
        preset=config.preset,
        environment=config.environment.name,
        num_problems=len(episodes),
        num_solved=sum(episode.success for episode in episodes),
        agents=agents,
        answers=tuple(told),
        remarks=tuple(remarks),
    )


def read_answers(episode: Episode, own: Sequence[CustomReward] = ()) -> list[TriedAnswer]:
    """The answers of an episode with their verdicts; the rewards include the user's `own` components."""
    values = [(each.weight, each.values(episode)) for each in own]
    return [
        TriedAnswer(
            problem=episode.problem.problem_id,
            turn=node.group.turn,
            agent=node.group.agent,
            text=node.candidates[0].text,
            verdict=judge(node.candidates[0]),
            reason=node.candidates[0].outcome.error or node.candidates[0].outcome.unscorable,
            reward=node.candidates[0].reward + sum(weight * values_N_K[n][0] for weight, values_N_K in values),
        )
        for n, node in enumerate(episode.nodes)
        if node.parent is None
    ]


def judge(answer: Candidate) -> Verdict:
    """What an answer is. One without any text beside its thinking is "no answer"."""
    if answer.outcome.unscorable is not None:
        return "not scored"
    if answer.outcome.error is None:
        return "right" if answer.outcome.solves else "not right"
    try:
        return "malformed" if without_thinking(answer.text).strip() else "no answer"
    except MalformedAction:  # thinking that never ends, or that no answer follows
        return "no answer"


def read_shares(role: str, answers: Sequence[TriedAnswer], prompt: str, *, reads_instructions: bool) -> TriedAgent:
    """The shares of the answers of `role`, which has given at least one."""
    counted = Counter(each.verdict for each in answers if each.agent == role)
    total = counted.total()
    return TriedAgent(
        prompt=prompt,
        reads_instructions=reads_instructions,
        num_answers=total,
        right=counted["right"] / total,
        malformed=counted["malformed"] / total,
        no_answer=counted["no answer"] / total,
    )


def describe_trial(trial: Trial, name: str) -> list[str]:
    """The lines for the terminal; `name` is the preset or file that was tried."""
    lines = []
    for role, agent in trial.agents.items():
        lines += [f"{role} reads:", *(f"    {line}" for line in printable(agent.prompt.strip()).splitlines()), ""]
    numbers = {problem: n + 1 for n, problem in enumerate(dict.fromkeys(each.problem for each in trial.answers))}
    longest = max(map(len, trial.agents), default=0)
    for each in trial.answers:
        reason = "" if each.reason is None else f": {quote_answer(each.reason)}"
        lines.append(
            f"{numbers[each.problem]:3}  {each.agent:{longest}}  {each.verdict}{reason}, reward {each.reward:.3g}  "
            f"{quote_answer(each.text)}"
        )
    lines.append("")
    lines += [f"{role}: {describe_shares(agent)}" for role, agent in trial.agents.items()]
    lines.append(f"{trial.num_solved} of {trial.num_problems} problems solved, before any training")
    lines += [f"! {remark}" for remark in trial.remarks]
    return [*lines, "", f"next: {next_step(trial, name)}"]


def describe_shares(agent: TriedAgent) -> str:
    """**Example** "6% right, 81% malformed, 0% no answer at all, of 16 answers"."""
    return (
        f"{agent.right:.0%} right, {agent.malformed:.0%} malformed, {agent.no_answer:.0%} no answer at all, "
        f"of {agent.num_answers} answers"
    )


def next_step(trial: Trial, name: str) -> str:
    """Training, where something is there to learn from; else another prompt for the agent that is read least."""
    if trial.num_solved and not trial.remarks:
        return f"troupe train {name}"
    if not trial.agents:
        return f"troupe play {name}, to see what the agents are asked"
    readers = [role for role, agent in trial.agents.items() if agent.reads_instructions]
    if not readers:
        return (
            f"troupe train {name}; its policies read no instructions, and learn from demonstrations first "
            "(warm_start.max_steps)"
        )
    least = max(
        readers,
        key=lambda role: (trial.agents[role].malformed + trial.agents[role].no_answer, -trial.agents[role].right),
    )
    return (
        f"say what is wanted, with an example, and try again: troupe try {name} --set "
        f"'agents.{least}.prompt={{extend: \"...\"}}' (replace: instead of the environment's instructions)"
    )
