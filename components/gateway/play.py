"""Play of a block by programs: each episode is a session of the gateway, and goes on by itself."""

import re
import secrets
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from components.environments.base import Tools
from components.environments.family import Family
from components.environments.program import AgentProgram
from components.gateway.calls import CallJournal, ForkedCalls
from components.gateway.gateway import Gateway
from components.gateway.lines import Fork, ForkedEpisode, Judge, Line
from components.gateway.programs import Endpoint, ProgramRunner
from components.gateway.server import Entrance, GatewayServer
from components.gateway.sessions import AgentSession, Budget
from components.identity import fingerprint
from components.machine.scratch import scratch_folder
from components.rewards.base import Rubric
from components.rollout.rules import SamplingRules, Start
from components.schema import Episode, ProgramEnd

OpenJournal = Callable[[str], CallJournal]
"""The calls of the session of this name."""
_MOST_STARTS = 3
"""Of a program that is killed from outside: it begins again, with the answers that it had."""


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
            door = _Door(server)

            def play_one(start: Start) -> Episode:
                judge = Judge(
                    start=start,
                    rules=rules,
                    referee=family.referee(tools, measures_value=rules.measures_value),
                    rubric=rubric,
                    read_text=self.read_text,
                    roles=family.roles,
                )
                program = family.rules.program(start.problem)
                assert program is not None, f"{family.name} has programs for some problems and none for others"
                episode = ForkedEpisode(judge)
                budget = Budget(num_calls=rules.max_turns * len(family.roles))
                # One after another: each runs in the folder of the first, as paths stand in prompts.
                while episode.waiting:
                    fork = episode.waiting.pop(0)
                    for _ in range(_MOST_STARTS):
                        session = self._open_session(judge, fork, budget)
                        end = self._run(program, session, start, door)
                        if end.exit_code != -signal.SIGKILL:  # that is the machine's doing, not the program's
                            break
                    episode.add(fork, session.kept.values(), end)
                return episode.finish()

            return tuple(threads.map(play_one, starts))

    def _open_session(self, judge: Judge, fork: Fork, budget: Budget) -> AgentSession:
        name = f"{judge.start.problem.problem_id}/e{judge.start.episode}"
        own = self.journal(f"{name}/below/{fork.label}" if fork.label else name)
        return AgentSession(
            name=name,
            journal=ForkedCalls({call.key: call for call in fork.calls}, own),
            budget=budget,
            branch=fork.label,
            siblings=Line(judge, fork),
            volatile=self.volatile,
        )

    def _run(self, program: AgentProgram, session: AgentSession, start: Start, door: "_Door") -> ProgramEnd:
        """The end of the program, which has asked in the session."""
        box_url = self.runner.boxes.url if self.runner.is_boxed(program) else None
        with door.admit(session, box_url=box_url) as endpoint:
            return self.runner.run(program, start.problem.payload, name=fingerprint(session.name), endpoint=endpoint)


class _Door:
    """Where programs find the gateway. Raises what failed behind it."""

    def __init__(self, server: GatewayServer) -> None:
        self._server = server
        self._sessions: dict[str, AgentSession] = {}
        self._url = server.listen("127.0.0.1", 0, Entrance(find_session=self._sessions.get))

    @contextmanager
    def admit(self, session: AgentSession, *, box_url: str | None) -> Iterator[Endpoint]:
        """The endpoint of a session while its program runs, in a box if there is its address in one."""
        self._check()
        with self._open_key(session) if box_url is None else self._open_socket(session, box_url) as endpoint:
            yield endpoint
        self._check()

    @contextmanager
    def _open_key(self, session: AgentSession) -> Iterator[Endpoint]:
        key = secrets.token_urlsafe(24)
        self._sessions[key] = session
        try:
            yield Endpoint(url=self._url, key=key)
        finally:
            del self._sessions[key]

    @contextmanager
    def _open_socket(self, session: AgentSession, box_url: str) -> Iterator[Endpoint]:
        """The socket that a box leads to: who reaches it needs no key."""
        socket = scratch_folder(for_sockets=True) / f"{secrets.token_hex(8)}.sock"
        self._server.open_socket(socket, Entrance.for_one(session))
        try:
            yield Endpoint(url=box_url, key="none", socket=socket)
        finally:
            self._server.close_socket(socket)

    def _check(self) -> None:
        if self._server.failure is not None:
            raise self._server.failure
