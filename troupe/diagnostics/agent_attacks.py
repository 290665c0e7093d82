"""Carries out the attacks of agents: each in a box with a session of its own, while another session goes on asking."""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from components.environments.program import AgentBox
from components.gateway.base import Message
from components.gateway.calls import UnkeptCalls
from components.gateway.encoder import ChatEncoder
from components.gateway.gateway import Gateway, ServedPolicy
from components.gateway.server import Entrance, GatewayServer
from components.gateway.sessions import AgentSession, Budget
from components.generation.base import Completion, GenerationRequest
from components.machine.closeable import Closeable
from components.machine.home import ensure_home
from components.machine.scratch import scratch_folder
from components.models.tokenizer import HuggingFaceTokenizer
from components.sandbox.agent_box import BubblewrapAgents
from components.sandbox.attacks.agents import AgentAttack, Seen, Target, agent_attacks
from components.sandbox.attacks.catalogue import choose_attacks
from components.sandbox.attacks.decoys import laid_out
from components.sandbox.attacks.runner import AttackReport
from components.sandbox.base import AgentJob, SandboxDescription
from components.schema import ExecutionResult, ExecutionStatus, PolicyVersion, ProgramEnd

POLICY = "policy"
MOST_CALLS = 150
ATTACK_SECONDS = 90.0
MOST_SECONDS_AN_ANSWER = 30.0
"""How long the other session may wait for one, on a busy machine."""
_PAUSE_SECONDS = 0.2
_START, _END = "<|im_start|>", "<|im_end|>"
_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def attack_agents(
    only: str | None,
    on_start: Callable[[AgentAttack, SandboxDescription], None],
    on_report: Callable[[AttackReport], None],
) -> tuple[SandboxDescription, list[AttackReport]]:
    """Carry out all attacks, or the one of this name. Raises ConfigurationError for an unknown name, ServiceMissing where there
    are no boxes."""
    home = ensure_home() / "sandbox"
    boxes = BubblewrapAgents(home)
    reports = []
    with laid_out(home / "bait") as bait, GatewayServer(open_decoy_gateway()) as server, Other(server) as other:
        for each in choose_attacks(agent_attacks(bait, other.target), only):
            on_start(each, boxes.description)
            reports.append(carry_out(each, boxes, server, other))
            on_report(reports[-1])
    return boxes.description, reports


def open_decoy_gateway() -> Gateway:
    """A gateway of one policy, whose answers are numbers that the seeds decide: nothing of a model is needed to attack it."""
    tokenizer = HuggingFaceTokenizer(_make_tokenizer())
    version = PolicyVersion(policy=POLICY, step=0, weights_digest="decoy")

    def sample(policy: str, request: GenerationRequest) -> tuple[Completion, ...]:
        tokens = (*tokenizer.encode(f"answer {request.seeds_K[0] % 10**12}"), tokenizer.end_token)
        return (Completion(tokens=tokens, logprobs=(0.0,) * len(tokens), finish_reason="stop", version=version),)

    served = ServedPolicy(
        policy=POLICY,
        version=version,
        encoder=ChatEncoder(tokenizer),
        show_tokens=tokenizer.decode_with_specials,
        max_new_tokens=64,
    )
    return Gateway(models={POLICY: served}, sample=sample, seed=0)


def _make_tokenizer() -> Any:
    """A tokenizer of bytes with ChatML. "ab" is one token, without which it would be taken for one of characters."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "ab"]
    backend = Tokenizer(models.BPE({token: number for number, token in enumerate(letters)}, [("a", "b")]))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    tokenizer.add_special_tokens({"eos_token": _END, "additional_special_tokens": [_START]})
    tokenizer.chat_template = _CHATML
    return tokenizer


class Other(Closeable):
    """The session beside the attacker's, which goes on asking through its own socket."""

    def __init__(self, server: GatewayServer) -> None:
        self._server = server
        self._session = AgentSession(name="other", journal=UnkeptCalls())
        self._socket = _name_socket()
        self._num_asked = 0
        key = secrets.token_urlsafe(24)
        server.open_socket(self._socket, Entrance.for_one(self._session, key))
        self._client = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(self._socket)),
            base_url="http://gateway",
            headers={"Authorization": f"Bearer {key}"},
            timeout=MOST_SECONDS_AN_ANSWER,
        )
        question = "the secret of the other session"
        self.target = Target(key=key, socket=str(self._socket), question=question, answer=self._ask(question))

    @contextmanager
    def asking(self) -> Iterator[list[str]]:
        """Ask during the block; the list gets what went wrong."""
        faults: list[str] = []
        ends = threading.Event()
        first = self._num_asked

        def go_on() -> None:
            while not ends.is_set() or self._num_asked == first:
                try:
                    self._ask(f"question {self._num_asked}")
                except httpx.HTTPError as error:
                    faults.append(f"another session got no answer: {type(error).__name__} {error}")
                    return
                ends.wait(_PAUSE_SECONDS)

        thread = threading.Thread(target=go_on, name="other-session")
        thread.start()
        try:
            yield faults
        finally:
            ends.set()
            thread.join()

    @property
    def calls(self) -> tuple[int, int]:
        """How many calls the session has, and how many it asked."""
        return len(self._session.kept), self._num_asked

    def _ask(self, text: str) -> str:
        body = {"model": POLICY, "messages": [{"role": "user", "content": text}]}
        answer = self._client.post("/v1/chat/completions", json=body).raise_for_status()
        self._num_asked += 1
        return str(answer.json()["choices"][0]["message"]["content"])

    def close(self) -> None:
        """Hang up."""
        self._client.close()
        self._server.close_socket(self._socket)


def carry_out(attack: AgentAttack, boxes: BubblewrapAgents, server: GatewayServer, other: Other) -> AttackReport:
    """Run an attack in a box with a session of its own."""
    started = time.monotonic()
    session = AgentSession(name="attacker", journal=UnkeptCalls(), budget=Budget(num_calls=MOST_CALLS))
    socket = _name_socket()
    server.open_socket(socket, Entrance.for_one(session))
    try:
        with other.asking() as faults:
            end = boxes.run(_make_job(attack), socket)
    finally:
        server.close_socket(socket)
    assert server.gateway is not None, "a server of decoys has their gateway"
    opens = server.gateway.models[POLICY].encoder.encode([Message(role="user", text="")], ())[0]
    num_calls, num_asked = other.calls
    seen = Seen(
        num_other_calls=num_calls,
        num_other_asked=num_asked,
        num_turns=tuple(call.prompt_tokens.count(opens) for call in session.kept.values()),
    )
    if server.failure is not None:
        faults.append(f"the gateway failed: {type(server.failure).__name__}: {server.failure}")
    verdict = attack.judge(_read_end(end), seen)
    return AttackReport(
        name=attack.name,
        theme=attack.theme,
        tries=attack.tries,
        stopped=verdict.stopped,
        stopped_by=" ".join(verdict.by.split()),
        next_job_ok=not faults,
        next_job=faults[0] if faults else "right",
        seconds=time.monotonic() - started,
    )


def _make_job(attack: AgentAttack) -> AgentJob:
    box = AgentBox()
    return AgentJob(
        command=("python", "attack.py"),
        variables={},
        files={"attack.py": attack.program},
        outputs=(),
        seconds=ATTACK_SECONDS,
        reads=(),
        memory_mib=box.memory_mib,
        disk_mib=box.disk_mib,
        num_processes=box.num_processes,
        num_cpus=box.num_cpus,
    )


def _read_end(end: ProgramEnd) -> ExecutionResult:
    status: ExecutionStatus = "wall_timeout" if end.exit_code is None else "nonzero_exit" if end.exit_code else "ok"
    return ExecutionResult(
        status=status, stdout=end.output, stderr="", exit_code=end.exit_code, wall_seconds=0.0, cpu_seconds=0.0
    )


def _name_socket() -> Path:
    return scratch_folder(for_sockets=True) / f"{secrets.token_hex(8)}.sock"
