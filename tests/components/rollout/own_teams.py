"""Teams of every shape over small environments of one's own, and an engine that says what a test wrote down."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from components.environments.base import Step
from components.environments.environment import Environment
from components.environments.family import Family
from components.frozen import Frozen
from components.rewards.base import Rubric
from components.rollout.play import play
from components.rollout.router import RoleBinding, Router
from components.rollout.rules import SamplingRules, Start
from components.schema import Episode, Node
from components.turn_order import TurnOrder
from tests.components.generation.scripted import CharacterTokenizer
from tests.components.rollout.toy_team import VERSION, RecordingGenerator, chance

Lines = Callable[[str], Sequence[str]]
"""The candidates of a prompt, in order."""


class Choir(RecordingGenerator):
    """Candidate k of a prompt says the prompt's k-th line."""

    def __init__(self, lines: Lines, alphabet: str) -> None:
        super().__init__(VERSION, lambda prompt, seed: lines(prompt)[self._places.get(seed, 0)])
        self._tokenizer = CharacterTokenizer(alphabet)
        self._places: Mapping[int, int] = {}

    def generate(self, requests: Any, version: Any) -> Any:
        self._places = {seed: k for request in requests for k, seed in enumerate(request.seeds_K)}
        return super().generate(requests, version)


class Speaker(RecordingGenerator):
    """Answers by prompt and seed, in a family's own characters."""

    def __init__(self, family: Family, respond: Callable[[str, int], str]) -> None:
        super().__init__(VERSION, respond)
        self._tokenizer = CharacterTokenizer(family.alphabet(family.options_type()))


class Votes(Environment):
    """Ann and Bob answer side by side, the judge decides. The reward of a voter is the number of right answers so far."""

    roles = ("ann", "bob", "judge")
    turn_order = (("ann", "bob"), "judge")
    weights: Mapping[str, float] = {"team.right": 1.0}

    def draw(self, options: Frozen, rng: Random) -> Mapping[str, Any]:
        return {"secret": rng.randrange(1000), "votes": []}

    def observe(self, state: Any, agent: str) -> str:
        return f"{agent} sees {state['votes']}"

    def step(self, state: Any, agent: str, answer: str) -> Step:
        if agent == "judge":
            return Step(state=state, solved=answer == "6", team={"right": 0.0})
        state["votes"].append(answer)
        return Step(state=state, team={"right": float(state["votes"].count("6"))})

    def expert(self, state: Any, agent: str) -> str:
        return "6"


class Race(Votes):
    """Whoever says 6 ends the episode."""

    def step(self, state: Any, agent: str, answer: str) -> Step:
        state["votes"].append(answer)
        right = float(len(state["votes"]))
        return Step(state=state, solved=answer == "6", team={"right": right}, team_from_start={"right": 10 * right})


class Desk(Environment):
    """A router hands a letter to one of two clerks; the checker sends it back until it is right."""

    roles = ("router", "left", "right", "checker")
    weights: Mapping[str, float] = {"local.fit": 1.0}

    def draw(self, options: Frozen, rng: Random) -> Mapping[str, Any]:
        return {"side": rng.choice(["left", "right"]), "number": rng.randrange(1000), "route": None, "draft": None}

    def next_role(self, state: Any) -> str | None:
        if state["route"] is None:
            return "router"
        if state["route"] == "nobody":
            return None
        return "checker" if state["draft"] else str(state["route"] or "left")

    def observe(self, state: Any, agent: str) -> str:
        return f"{agent} {state['side']} {state['draft']}"

    def step(self, state: Any, agent: str, answer: str) -> Step:
        if agent == "router":
            return Step(state={**state, "route": answer}, local={"fit": float(answer == state["side"])})
        if agent == "checker":
            is_right = answer == state["draft"] == state["side"]
            return Step(state={**state, "draft": None}, solved=is_right, local={"fit": float(is_right)})
        return Step(state={**state, "draft": answer}, local={"fit": float(answer == state["side"])})

    def expert(self, state: Any, agent: str) -> str:
        return str(state["side"])


class Wanderers(Environment):
    """What happens and who is next are hashes of the whole history: one agent, several side by side, or nobody."""

    roles = ("a", "b", "c")
    weights: Mapping[str, float] = {"team.luck": 1.0, "local.style": 0.5}
    max_answer_characters = 8

    def draw(self, options: Frozen, rng: Random) -> Mapping[str, Any]:
        return {"name": rng.randrange(10**6), "history": []}

    def next_role(self, state: Any) -> str | tuple[str, ...] | None:
        luck = chance(state["name"], "next", state["history"])
        if luck < 0.1:
            return None
        size = 1 if luck < 0.5 else 2 if luck < 0.8 else 3
        picked = [self.roles[int(chance(state["name"], state["history"], place) * 3)] for place in range(size)]
        return picked[0] if size == 1 else tuple(picked)

    def observe(self, state: Any, agent: str) -> str:
        shown = "/".join(f"{who}={what}" for who, what in state["history"])
        return f"{state['name']}|{agent}|{shown}>"

    def step(self, state: Any, agent: str, answer: str) -> Step:
        state["history"].append([agent, answer])
        facts = (state["name"], state["history"])
        done = chance(*facts, "done") < 0.1
        return Step(
            state=state,
            done=done,
            solved=done and chance(*facts, "solved") < 0.5,
            team={"luck": int(chance(*facts, "luck") * 5) / 5},
            team_from_start={"luck": chance(*facts, "from the start")},
            local={"style": chance(agent, answer)},
        )


def family_of(environment: type[Environment]) -> Family:
    return Family(environment.__name__.lower(), environment())


def starts_of(family: Family, num_problems: int = 1, seed: int = 0) -> list[Start]:
    options = family.options_type()
    problems = [family.problem(options, split="train", index=i, seed=seed) for i in range(num_problems)]
    return [Start(problem=problem, episode=0) for problem in problems]


def rubric_of(family: Family) -> Rubric:
    return Rubric(team_weight=1.0, weights=family.default_weights)


def router_of(family: Family, engine: RecordingGenerator, *, max_new_tokens: int = 16) -> Router:
    seat = RoleBinding(policy="p", prompt_format="compact", max_new_tokens=max_new_tokens)
    return Router({"p": engine}, seats=dict.fromkeys(family.roles, seat), versions={"p": VERSION})


def rules_of(turn_order: TurnOrder, *, max_turns: int = 1, group_size: int = 2, handoff: float = 0.0) -> SamplingRules:
    return SamplingRules(
        turn_order=turn_order,
        max_turns=max_turns,
        group_size=group_size,
        temperature=1.0,
        seed=0,
        purpose=("rollout", 0),
        random_handoff_probability=handoff,
    )


def sung(
    environment: type[Environment], lines: Lines, rules: SamplingRules, starts: Sequence[Start] | None = None
) -> tuple[Episode, Choir]:
    """The first problem's episode with the candidates that `lines` gives, and who was asked."""
    family = family_of(environment)
    choir = Choir(lines, family.alphabet(family.options_type()))
    first = (starts or starts_of(family))[:1]
    (episode,) = play(first, rules, family=family, router=router_of(family, choir), rubric=rubric_of(family))
    return episode, choir


def decode_prompt(node: Node, family: Family) -> str:
    """A node's prompt as text."""
    return CharacterTokenizer(family.alphabet(family.options_type())).decode(node.prompt_tokens)


def rewards_of(episode: Episode) -> list[tuple[str, tuple[float, ...]]]:
    """Agent and rewards of each node."""
    return [(node.group.agent, tuple(candidate.reward for candidate in node.candidates)) for node in episode.nodes]
