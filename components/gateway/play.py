"""Play of a block by programs: each episode is a session of the gateway, and goes on by itself."""

import logging
import re
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from components.environments.base import Tools
from components.environments.family import Family
from components.gateway.calls import CallJournal, ForkedCalls
from components.gateway.gateway import Gateway
from components.gateway.lines import Fork, ForkedEpisode, Judge, Line
from components.gateway.programs import ProgramRunner
from components.gateway.server import Seat
from components.gateway.sessions import AgentSession, Budget
from components.reporting.progress_share import report_share
from components.rewards.base import Rubric
from components.rollout.rules import SamplingRules, Start
from components.schema import Episode

OpenJournal = Callable[[str], CallJournal]
"""The calls of the session of this name."""
_log = logging.getLogger("troupe.gateway")
_MOST_STARTS = 5
"""Of a program that is killed from outside and gets no further: it begins again, with the answers that it had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPlay:
    """What plays episodes by programs: the policies behind a gateway, where calls are kept, and who runs the programs."""

    open_gateway: Callable[[SamplingRules], Gateway]
    """The policies, drawn from as the rules of a play say."""
    journal: OpenJournal
    runner: ProgramRunner
    decode_answer: Callable[[str, Sequence[int]], str]
    """What a role's answer says, of its tokens."""
    num_at_once: int = 4

    def play(
        self, starts: Sequence[Start], rules: SamplingRules, *, family: Family, rubric: Rubric, tools: Tools
    ) -> tuple[Episode, ...]:
        """One finished episode per start, in order. How an engine fails is raised, how a program does is data."""
        gateway, failures = self.open_gateway(rules), list[Exception]()
        judges = [
            Judge(
                start=start,
                rules=rules,
                referee=family.referee(tools, measures_value=rules.measures_value),
                rubric=rubric,
                decode_answer=self.decode_answer,
                roles=family.roles,
            )
            for start in starts
        ]
        episodes = []
        with closing(gateway), ThreadPoolExecutor(self.num_at_once) as threads:
            for episode in threads.map(partial(self._play_one, family, gateway, failures), judges):
                episodes.append(episode)
                report_share(len(episodes) / len(starts))
        if gateway.counts.num_diverged:
            _log.warning(
                "%d recorded calls of programs were not asked again: run again, they ask something else, and %d answers were "
                "sampled; name what differs, as a date, in volatile (docs/agents.md)",
                gateway.counts.num_diverged,
                gateway.counts.num_sampled,
            )
        return tuple(episodes)

    def _play_one(self, family: Family, gateway: Gateway, failures: list[Exception], judge: Judge) -> Episode:
        """One episode. Raises what failed behind the gateway, here or in another episode: it is put into `failures`."""
        problem = judge.start.problem
        program = family.rules.program(problem)
        assert program is not None, f"{family.name} has programs for some problems and none for others"
        episode, volatile = ForkedEpisode(judge), tuple(map(re.compile, program.volatile))
        # One after another: each runs in the folder of the first, as paths stand in prompts.
        while episode.waiting:
            fork = episode.waiting.pop(0)
            starts, most_calls = 0, 0
            while starts < _MOST_STARTS:
                if failures:
                    raise failures[0]
                session = self._open_session(judge, fork, volatile)
                seat = Seat(session, gateway, program.models, program.sub_agents)
                end = self.runner.run(program, problem.payload, seat)
                if session.failure is not None:
                    failures.append(session.failure)
                    raise session.failure
                if end.exit_code != -signal.SIGKILL:  # that is the machine's doing, not the program's
                    break
                starts = 1 if len(session.kept) > most_calls else starts + 1
                most_calls = max(most_calls, len(session.kept))
            gateway.end(session)
            episode.add(fork, session.kept.values(), end)
        return episode.finish()

    def _open_session(self, judge: Judge, fork: Fork, volatile: tuple[re.Pattern[str], ...]) -> AgentSession:
        name = f"{judge.start.problem.problem_id}/e{judge.start.episode}"
        own = self.journal(f"{name}/below/{fork.label}" if fork.label else name)
        return AgentSession(
            name=name,
            journal=ForkedCalls({call.key: call for call in fork.calls}, own),
            budget=Budget(num_calls=judge.rules.max_turns * len(judge.roles)),
            branch=fork.label,
            siblings=Line(judge, fork),
            volatile=volatile,
        )
