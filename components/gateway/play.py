"""Play of a block by programs: each episode is a session of the gateway, and goes on by itself."""

import re
import secrets
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from components.environments.base import Tools
from components.environments.family import Family
from components.environments.play import Referee
from components.gateway.calls import AgentCall, CallJournal
from components.gateway.gateway import Gateway
from components.gateway.programs import Endpoint, ProgramRunner
from components.gateway.server import Entrance, GatewayServer
from components.gateway.sessions import AgentSession, Budget
from components.identity import GroupKey, fingerprint
from components.rewards.base import Rubric
from components.rollout.rules import SamplingRules, Start
from components.schema import ActionOutcome, Candidate, Episode, Node, ProgramEnd

OpenJournal = Callable[[str], CallJournal]
"""The calls of the session of this name."""
_MOST_STARTS = 3
"""Of a program that is killed from outside: it begins again, with the answers that it had."""
_NOTHING = ActionOutcome(team={}, local={}, solves=False, done=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPlay:
    """What plays episodes by programs: the policies behind a gateway, where calls are kept, and who runs the programs."""

    open_gateway: Callable[[SamplingRules], Gateway]
    """The policies, drawn from as the rules of a play say."""
    journal: OpenJournal
    runner: ProgramRunner
    read_text: Callable[[str, Sequence[int]], str]
    """What a role's answer says, of its tokens."""
    num_at_once: int = 4
    volatile: tuple[re.Pattern[str], ...] = ()

    def play(
        self, starts: Sequence[Start], rules: SamplingRules, *, family: Family, rubric: Rubric, tools: Tools
    ) -> tuple[Episode, ...]:
        """One finished episode per start, in order. How an engine fails is raised, how a program does is data."""
        with GatewayServer(self.open_gateway(rules)) as server, ThreadPoolExecutor(self.num_at_once) as threads:
            keys: dict[str, AgentSession] = {}
            url = server.listen("127.0.0.1", 0, Entrance(find_session=keys.get))

            def play_one(start: Start) -> Episode:
                if server.failure is not None:
                    raise server.failure
                program = family.rules.program(start.problem)
                assert program is not None, f"{family.name} has programs for some problems and none for others"
                name = f"{start.problem.problem_id}/e{start.episode}"
                budget = Budget(num_calls=rules.max_turns * len(family.roles))
                for _ in range(_MOST_STARTS):
                    session = AgentSession(name=name, journal=self.journal(name), budget=budget, volatile=self.volatile)
                    key = secrets.token_urlsafe(24)
                    keys[key] = session
                    endpoint = Endpoint(url=url, key=key)
                    try:
                        end = self.runner.run(program, start.problem.payload, name=fingerprint(name), endpoint=endpoint)
                    finally:
                        del keys[key]
                    if server.failure is not None:
                        raise server.failure
                    if end.exit_code != -signal.SIGKILL:  # that is the machine's doing, or another's, not the program's
                        break
                referee = family.referee(tools, measures_value=rules.measures_value)
                return self._make_episode(start, session, end, referee, rubric)

            return tuple(threads.map(play_one, starts))

    def _make_episode(
        self, start: Start, session: AgentSession, end: ProgramEnd, referee: Referee, rubric: Rubric
    ) -> Episode:
        """The calls as nodes, in the order in which they were sampled, judged by the environment."""
        calls = sorted(session.kept.values(), key=lambda call: call.number)
        if not calls:
            why = f"the program asked no policy: exit code {end.exit_code}; {end.output[-300:].strip()}"
            return Episode(problem=start.problem, episode=start.episode, nodes=(), success=False, error=why, ended=end)
        helpers = find_helper_calls(calls)
        trained = [call for call in calls if call.key not in helpers] or calls
        position, turns = referee.start(start.problem), Counter[str]()
        nodes = []
        for call in calls:
            text = self.read_text(call.model, call.tokens)
            outcome = _NOTHING
            if call in trained:
                outcome, position = referee.act_or_unscorable(position, call.model, text)
            if call is trained[-1]:
                outcome, position = referee.finish(position, outcome, end)
            group = GroupKey(
                problem_id=start.problem.problem_id, episode=start.episode, turn=turns[call.model], agent=call.model
            )
            turns[call.model] += 1
            nodes.append(_make_node(call, group, text, outcome, rubric, is_trained_on=call in trained))
        return Episode(
            problem=start.problem,
            episode=start.episode,
            nodes=tuple(nodes),
            success=position.is_solved and position.is_done,
            ended=end,
        )


def find_helper_calls(calls: Sequence[AgentCall]) -> set[str]:
    """The keys of calls that are no part of an agent's work, as those for a title: they offer no tools while others of the
    session do, and nothing continues them."""
    continued = {call.extends for call in calls}
    if not any(call.offers_tools for call in calls):
        return set()
    return {call.key for call in calls if not call.offers_tools and not call.extends and call.key not in continued}


def _make_node(
    call: AgentCall, group: GroupKey, text: str, outcome: ActionOutcome, rubric: Rubric, *, is_trained_on: bool
) -> Node:
    candidate = Candidate(
        tokens=call.tokens,
        sampler_logprobs=call.logprobs,
        finish_reason=call.finish_reason,
        text=text,
        outcome=outcome,
        reward=0.0 if outcome.unscorable is not None else rubric.reward(outcome),
    )
    return Node(
        group=group,
        policy=call.policy,
        prompt_tokens=call.prompt_tokens,
        candidates=(candidate,),
        chosen=0,
        temperature=call.temperature,
        is_trained_on=is_trained_on,
        choices=call.choices,
    )
