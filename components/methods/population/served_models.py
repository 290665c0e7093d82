"""Models without a run: policies on a base in this process, which answer here and at an address, and learn; models behind an
API, which answer."""

import copy
import string
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import exp, fsum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from components.config import AdapterConfig, ApiConfig, PolicyConfig, TransformersGeneration
from components.errors import ArtifactCorrupt, ConfigurationError, ServiceMissing
from components.frozen import Settings
from components.gateway.base import AgentRequest, Message, RequestRefused, Role
from components.gateway.endpoint import Endpoint
from components.generation.api.chat import KEY_VARIABLES
from components.generation.base import Completion, GenerationRequest, choice_request, read_choice
from components.machine.closeable import Closeable
from components.machine.process_variables import read_variable
from components.machine.scratch import scratch_folder
from components.models.base_checks import check_base
from components.rollout.router import RoleBinding
from components.schema import FinishReason, PolicyVersion
from components.session.checkpoint_loading import model_settings

if TYPE_CHECKING:
    from torch import Tensor

    from components.gateway.gateway import ServedPolicy
    from components.generation.api.engine import ApiGenerator
    from components.generation.local.engine import TransformersGenerator
    from components.training.adapter_steps import AdapterSteps, Selection, StepTaken

_HOST = "127.0.0.1"
_MOST_TOKENS = 32768
"""Of an answer of a model whose limit is not known."""


def _wrap_text(stop: Any) -> Any:
    return (stop,) if isinstance(stop, str) else stop


class AnswerSettings(Settings):
    """How a prompt is answered."""

    instructions: str = ""
    max_new_tokens: int = Field(256, ge=1)
    temperature: float = Field(0.7, ge=0)
    """0 is greedy."""
    stop: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_wrap_text)] = ()
    """Strings that end an answer."""
    seed: int = 0
    """Decides the draws."""
    max_length: int | None = Field(None, ge=2)
    """The most tokens of prompt and answer, of an API those of the answer; the model's own limit holds, too."""


class Question(AnswerSettings):
    """One prompt, and how it is answered."""

    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a policy answered. `confidence` is exp(mean log-probability of its tokens), 0 to 1; None if they are not known."""

    text: str
    confidence: float | None
    num_prompt_tokens: int
    num_answer_tokens: int
    finish_reason: FinishReason
    version: PolicyVersion


class ServedModel(Closeable):
    """A base in this process; its policies share it. Freed by `close` or a `with` block.

    **Example** `ServedModel("./my-model").policy("a").answer(Question(prompt="2 + 2 =", temperature=0)).text`.
    """

    def __init__(self, base: str, *, device: str = "cpu", gpu: int = 0) -> None:
        """`base` is "tiny" (random weights), "smollm2-135m", a model folder or a name on the hub. `device` auto: cuda where
        there is one; `gpu` numbers those that are there, and of fewer is taken modulo their number.

        Raises ConfigurationError or ServiceMissing if there is no such model, and what its loading raises.
        """
        import torch

        from components.generation.local.base_models import BaseModels
        from components.models.loading import prepare_model_folder
        from components.models.stored_models import most_tokens

        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.gpu = gpu % max(1, torch.cuda.device_count())
        self.settings = PolicyConfig(base=base) if base == "tiny" else model_settings(base)
        check_base("model", self.settings)
        self._config = TransformersGeneration.model_validate({"device": device, "dtype": "float32"})
        self._bases = BaseModels()
        place = f"cuda:{self.gpu}" if device == "cuda" else device
        with ExitStack() as opened:
            self.folder = Path(opened.enter_context(TemporaryDirectory(prefix="model-", dir=scratch_folder()))) / "base"
            prepare_model_folder(self.settings, alphabet=string.printable, seed=0, into=self.folder)
            loaded = self._bases.base(self.folder, device=place, dtype=torch.float32)
            self._ends = opened.pop_all()
        self.base_digest = loaded.digest
        self.most_tokens: int | None = most_tokens(loaded.module.config.get_text_config())
        """Of a prompt and its answer; None if no limit is known."""
        self.names: dict[str, ServedPolicy] = {}
        """The newest version of each policy, as programs find it."""
        self._policies: dict[str, LivePolicy] = {}
        self.endpoint = self._ends.enter_context(Endpoint(self.names, self._sample, seed=0))
        self._urls: dict[int, str] = {}

    def policy(self, name: str, adapter: AdapterConfig | None = None) -> "LivePolicy":
        """A policy that answers: the base, or an adapter on it that changes nothing yet.

        Raises ConfigurationError if the base has none of the adapter's targets.
        """
        from components.generation.local.engine import TransformersGenerator
        from components.models.adapters import ADAPTER_FOLDER
        from components.training.checkpoint import write_initial_adapter

        check_base(name, self.settings.model_copy(update={"adapter": adapter}))
        live = LivePolicy(name, self, adapter, TransformersGenerator(self._config, self._bases, gpu=self.gpu))
        self._policies[name] = live
        if adapter is None:
            live.load_base()
            return live
        with TemporaryDirectory(dir=self.folder.parent) as work:
            write_initial_adapter(self.folder, Path(work) / "made", name, adapter=adapter, seed=0)
            live.swap(Path(work) / "made" / ADAPTER_FOLDER)
        return live

    def listen(self, port: int) -> str:
        """The address with /v1 at which programs of this machine ask the policies by their names; the same for a port that is
        listened on already. Raises ConfigurationError for one that another program has."""
        if port not in self._urls:
            self._urls[port] = self.endpoint.listen(_HOST, port)
        return self._urls[port]

    def close(self) -> None:
        """Stop listening, and free the base's files. Its policies answer no more."""
        self._ends.close()

    def _sample(self, policy: str, request: GenerationRequest) -> tuple[Completion, ...]:
        return (self._policies[policy].sample(request),)


class LivePolicy:
    """A policy that answers from any thread, one question at a time. With an adapter it learns, and takes other weights between
    two answers."""

    def __init__(
        self, name: str, model: ServedModel, adapter: AdapterConfig | None, engine: "TransformersGenerator"
    ) -> None:
        self.name, self.adapter = name, adapter
        self._model, self._engine = model, engine
        self._turn = threading.Lock()
        self._version: PolicyVersion | None = None
        self._steps: AdapterSteps | None = None

    @property
    def version(self) -> PolicyVersion:
        """The version that answers now; its step counts the changes of its weights."""
        assert self._version is not None, f"{self.name} has weights from the start"
        return self._version

    def load_base(self) -> None:
        """Answer by the base alone."""
        version = PolicyVersion(policy=self.name, step=0, weights_digest=self._model.base_digest)
        self._engine.load(self._model.folder, version)
        self._begin(version)

    def answer(self, question: Question) -> Answer:
        """One answer, all of one version. Raises ConfigurationError for a prompt that leaves no room for an answer."""
        room = question.max_new_tokens
        try:
            request = self._request(question)
            if question.max_length is not None:
                room = min(room, question.max_length - self._model.endpoint.count_tokens(request))
            if room < 1:
                raise ConfigurationError(
                    f"max_length {question.max_length}: the prompt leaves no room for an answer; use more, or a shorter prompt"
                )
            call = self._model.endpoint.ask(replace(request, max_tokens=room))
        except RequestRefused as refused:
            raise ConfigurationError(f"prompt: {refused}") from refused
        return Answer(
            text=call.text,
            confidence=exp(fsum(call.logprobs) / len(call.logprobs)) if call.logprobs else None,
            num_prompt_tokens=len(call.prompt_tokens),
            num_answer_tokens=len(call.tokens),
            finish_reason=call.finish_reason,
            version=call.version,
        )

    def sample(self, request: GenerationRequest) -> Completion:
        """The engine's answer, of no more tokens than the model computes."""
        most = self._model.most_tokens
        if most is not None and most > (read := len(request.prompt_tokens)):
            request = replace(request, max_new_tokens=min(request.max_new_tokens, most - read))
        with self._turn:
            ((completion,),) = self._engine.generate([request], self.version)
        return completion

    def choose(self, question: Question, choices: Sequence[str]) -> tuple[int, float]:
        """The index of a choice, drawn from the model's probabilities of these texts alone, and the probability of it.

        **Example** choices "Up" and "Down" of which the model gives "Up" .57: (0, .57) for 57 of 100 seeds.
        """
        prompt = self._model.names[self.name].encoder.encode(self._request(question).messages, ())
        with self._turn:
            request = choice_request(self._engine.tokenizer, prompt, choices, [question.seed])
            ((completion,),) = self._engine.generate([request], self.version)
            return read_choice(request, completion)

    def num_prompt_tokens(self, question: Question) -> int:
        """The tokens that the model reads of a question."""
        return self._model.endpoint.count_tokens(self._request(question))

    def tensors(self) -> "dict[str, Tensor]":
        """Copies of the adapter's tensors, by their names in PEFT's files. Raises ConfigurationError without an adapter."""
        return self._learning().tensors()

    def update(
        self, gradients: "Mapping[str, Tensor]", learning_rate: float, *, selection: "Selection" = "adaptive"
    ) -> "StepTaken":
        """Take a step on the adapter, and answer by the result.

        Raises ConfigurationError for what is no gradient, ArtifactCorrupt for a result that is not finite; then nothing has
        changed.
        """
        with self._turn:
            steps = copy.deepcopy(self._learning())
            taken = steps.step(gradients, learning_rate, selection=selection)
            if taken.stepped:
                self._load(steps.tensors())
                self._steps = steps
            return taken

    def swap(self, weights: "Path | Mapping[str, Tensor]") -> PolicyVersion:
        """Answer by the adapter in a folder, or by its tensors, as the next version, and learn on from it with a new optimizer.

        Raises ConfigurationError without an adapter, ArtifactCorrupt for weights that are not one of its rank, alpha, targets
        and shapes, or hold NaN; then the version before answers on.
        """
        from components.models.adapters import read_adapter_config, read_stored_adapter
        from components.training.adapter_steps import AdapterSteps

        own = self.adapter and self.adapter.model_copy(update={"targets": tuple(sorted(self.adapter.targets))})
        if isinstance(weights, Path) and read_adapter_config(weights) != own:
            raise ArtifactCorrupt(f"{weights}: its rank, alpha or targets are not those of {self.name}, {own}")
        tensors = read_stored_adapter(weights) if isinstance(weights, Path) else dict(weights)
        with self._turn:
            self._load(tensors)
            self._steps = AdapterSteps(tensors)
            return self.version

    def _request(self, question: Question) -> AgentRequest:
        """The question as a program asks it. A model without a chat template reads one text."""
        texts: dict[Role, str] = {"system": question.instructions, "user": question.prompt}
        if self._model.settings.prompt_format != "chat":
            texts = {"user": question.instructions + question.prompt}
        return AgentRequest(
            model=self.name,
            messages=tuple(Message(role=role, text=text) for role, text in texts.items() if text),
            temperature=question.temperature,
            seed=question.seed,
            stop=question.stop,
        )

    def _begin(self, version: PolicyVersion) -> None:
        """Let the loaded weights answer as `version`."""
        from components.gateway.program_play import serve_seat

        self._version = version
        if self.name not in self._model.names:
            most = self._model.most_tokens or _MOST_TOKENS
            seat = RoleBinding(policy=self.name, prompt_format=self._model.settings.prompt_format, max_new_tokens=most)
            self._model.names[self.name] = serve_seat(seat, self._engine, version, temperature=1.0)
        self._model.names[self.name] = replace(self._model.names[self.name], version=version)

    def _load(self, tensors: "Mapping[str, Tensor]") -> None:
        """Load them as the next version. All that can be wrong with them is found before the engine lets the last one go."""
        from components.models.adapters import compute_adapted_digest, write_adapter
        from components.models.digests import tensors_digest

        if self.adapter is None:
            raise ConfigurationError(f"{self.name}: has no adapter; enable LoRA to update or replace weights")
        shapes = {name: each.shape for name, each in (self._steps.tensors() if self._steps else tensors).items()}
        if {name: each.shape for name, each in tensors.items()} != shapes:
            raise ArtifactCorrupt(f"the weights have other layers or shapes than the adapter of {self.name}")
        if damaged := [name for name, each in tensors.items() if not bool(each.isfinite().all())]:
            raise ArtifactCorrupt(f"{damaged[0]}: holds NaN or infinity; the version before answers on")
        digest = compute_adapted_digest(self._model.base_digest, tensors_digest(tensors))
        step = 0 if self._version is None else self._version.step + 1
        version = PolicyVersion(policy=self.name, step=step, weights_digest=digest)
        with TemporaryDirectory(dir=self._model.folder.parent) as made:
            write_adapter(dict(tensors), self.adapter, Path(made))
            self._engine.load(self._model.folder, version, Path(made))
        self._begin(version)

    def _learning(self) -> "AdapterSteps":
        if self._steps is None:
            raise ConfigurationError(f"{self.name}: has no adapter; enable LoRA to update or replace weights")
        return self._steps


class ServedApi(Closeable):
    """A model behind an API, which answers from any thread. Freed by `close` or a `with` block.

    Each thread has a client of its own.
    """

    def __init__(self, api: ApiConfig, *, api_key: str | None = None) -> None:
        """Raises ConfigurationError without a key that the server needs, ServiceMissing without the provider's SDK."""
        self._api, self._key = api, api_key
        self._opened: list[ApiGenerator] = []
        self._lock = threading.Lock()
        self._own = threading.local()
        self._engine()

    def answer(self, question: Question) -> Answer:
        """One answer. Raises what the API's engine raises."""
        engine = self._engine()
        prompt = engine.tokenizer.encode_chat(question.instructions, question.prompt)
        request = _request(question, prompt, most=question.max_length)
        ((completion,),) = engine.generate([request], engine.version)
        usage = engine.take_usage()
        return Answer(
            text=engine.tokenizer.decode(completion.tokens),
            confidence=None,
            num_prompt_tokens=usage.num_prompt_tokens,
            num_answer_tokens=usage.num_answer_tokens,
            finish_reason=completion.finish_reason,
            version=engine.version,
        )

    def close(self) -> None:
        """End the connections after the requests under way."""
        with self._lock:
            for engine in self._opened:
                engine.close()

    def _engine(self) -> "ApiGenerator":
        from components.generation.api.engine import open_api_generator

        if not hasattr(self._own, "engine"):
            self._own.engine = open_api_generator("shared", self._api, api_key=self._key)
            with self._lock:
                self._opened.append(self._own.engine)
        engine: ApiGenerator = self._own.engine
        return engine


def read_provider_key(provider: str) -> str | None:
    """The key of "openai" or "anthropic" in its environment variable."""
    return read_variable(KEY_VARIABLES[provider])


def list_missing_models(policies: Mapping[str, PolicyConfig]) -> list[str]:
    """What is missing of each base, or of an API's key or SDK, and how to get it; each is named once."""
    missing: dict[str, str] = {}
    for name, policy in policies.items():
        try:
            if policy.api is None:
                check_base(name, policy)
            else:
                ServedApi(policy.api, api_key=read_provider_key(policy.api.provider)).close()
        except (ConfigurationError, ServiceMissing) as error:
            missing.setdefault(policy.base if policy.api is None else policy.api.model, str(error))
    return list(missing.values())


def _request(question: Question, prompt: tuple[int, ...], *, most: int | None) -> GenerationRequest:
    """The request for an answer of `max_new_tokens`, or of `most` if that is less."""
    return GenerationRequest(
        prompt_tokens=prompt,
        seeds_K=(question.seed,),
        max_new_tokens=question.max_new_tokens if most is None else min(most, question.max_new_tokens),
        temperature=question.temperature,
        stop=question.stop,
    )
