"""Models without a run: a base in this process, and policies on it that answer from any thread while they are replaced."""

import copy
import shutil
import string
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import exp, fsum
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING

from components.config import AdapterConfig, PolicyConfig, TransformersGeneration
from components.errors import ArtifactCorrupt, ConfigurationError
from components.generation.base import GenerationRequest, choice_request, read_choice
from components.generation.hot_swap import HotSwap, finite_probe
from components.machine.freed import Freed
from components.machine.scratch import scratch_folder
from components.models.base_checks import check_base
from components.schema import FinishReason, PolicyVersion
from components.session.checkpoint_loading import model_settings

if TYPE_CHECKING:
    from torch import Tensor

    from components.training.adapter_steps import AdapterSteps, Selection, StepTaken

_NUM_PROBE_TOKENS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One prompt and how it is answered. `seed` decides the draws; temperature 0 is greedy.

    `max_length` bounds the tokens of prompt and answer; the model's own limit holds, too.
    """

    prompt: str
    instructions: str = ""
    max_new_tokens: int = 256
    temperature: float = 0.7
    stop: tuple[str, ...] = ()
    seed: int = 0
    max_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a policy answered. `confidence` is exp(mean log-probability of its tokens), 0 to 1; None if they are not known."""

    text: str
    confidence: float | None
    num_prompt_tokens: int
    num_answer_tokens: int
    finish_reason: FinishReason
    version: PolicyVersion


class ServedModel(Freed):
    """A base in this process; its policies share it. Freed by `close` or a `with` block.

    **Example** `ServedModel("./my-model").policy("a").answer(Question(prompt="2 + 2 =", temperature=0)).text`.
    """

    def __init__(self, base: str, *, device: str = "cpu", dtype: str = "float32", seed: int = 0) -> None:
        """`base` is "tiny" (random weights by `seed`), "smollm2-135m", a model folder or a name on the hub.

        Raises ConfigurationError or ServiceMissing if there is no such model, and what its loading raises.
        """
        self.settings = PolicyConfig(base=base) if base == "tiny" else model_settings(base)
        check_base("model", self.settings)
        self._config = TransformersGeneration.model_validate({"device": device, "dtype": dtype})
        self._ends = ExitStack()
        self._work = Path(mkdtemp(prefix="model-", dir=scratch_folder()))
        self._ends.callback(shutil.rmtree, self._work, ignore_errors=True)
        self.folder = self._work / "model"
        try:
            self._open(seed)
        except BaseException:
            self._ends.close()
            raise

    def policy(
        self, name: str, adapter: AdapterConfig | None = None, *, seed: int = 0, weights: Path | None = None
    ) -> "ServedPolicy":
        """A policy that serves: the base, an adapter that changes nothing yet, or the adapter in the folder `weights`.

        Raises ConfigurationError if the base has none of the adapter's targets, and what `ServedPolicy.swap` raises.
        """
        from components.generation.local.engine import TransformersGenerator

        check_base(name, self.settings.model_copy(update={"adapter": adapter}))
        engines = (TransformersGenerator(self._config, self._bases), TransformersGenerator(self._config, self._bases))
        served = ServedPolicy(
            name,
            self,
            HotSwap(engines, check=finite_probe(self._probe, self._probe)),
            adapter=adapter,
            work=Path(mkdtemp(dir=self._work)),
        )
        served.start(seed, weights)
        return served

    @property
    def base_digest(self) -> str:
        """The digest of the base's weights as stored."""
        return self._base_digest

    def close(self) -> None:
        """Free the base and its files. Its policies answer no more."""
        self._ends.close()

    def _open(self, seed: int) -> None:
        import torch

        from components.generation.local.base_models import BaseModels
        from components.models.loading import prepare_model_folder
        from components.models.stored_models import most_tokens

        prepare_model_folder(self.settings, alphabet=string.printable, seed=seed, into=self.folder)
        self._bases = BaseModels()
        dtype = getattr(torch, self._config.dtype)
        base = self._bases.base(self.folder, device=self._config.device, dtype=dtype)
        self._base_digest = base.digest
        text = base.module.config.get_text_config()
        self.most_tokens: int | None = most_tokens(text)
        """Of a prompt and its answer; None if no limit is known."""
        size = int(text.vocab_size)
        self._probe = tuple((7 * index + 3) % size for index in range(_NUM_PROBE_TOKENS))


class ServedPolicy:
    """A policy that answers from any thread. With an adapter it learns, and takes other weights without a pause."""

    def __init__(
        self, name: str, model: ServedModel, serving: HotSwap, *, adapter: AdapterConfig | None, work: Path
    ) -> None:
        self.name = name
        self.adapter = adapter
        self._model = model
        self._serving = serving
        self._work = work
        self._steps: AdapterSteps | None = None
        self._changing = threading.Lock()

    @property
    def version(self) -> PolicyVersion:
        """The version that answers now."""
        version = self._serving.version
        assert version is not None, f"{self.name} serves from the start"
        return version

    def start(self, seed: int, weights: Path | None) -> None:
        """Serve the first version: `weights`, or an adapter made from `seed`, or the base."""
        if self.adapter is None:
            digest = self._model.base_digest
            version = PolicyVersion(policy=self.name, step=0, weights_digest=digest)
            self._serving.swap(self._model.folder, version)
            return
        if weights is None:
            from components.models.adapters import ADAPTER_FOLDER
            from components.training.checkpoint import write_initial_adapter

            made = self._work / "start"
            write_initial_adapter(self._model.folder, made, self.name, adapter=self.adapter, seed=seed)
            weights = made / ADAPTER_FOLDER
        self.swap(weights, 0)

    def answer(self, question: Question) -> Answer:
        """One answer, all of one version. Raises ConfigurationError for a prompt that leaves no room for an answer."""
        tokenizer = self._serving.tokenizer
        prompt = self._prompt(question)
        room = question.max_new_tokens if question.max_length is None else question.max_length - len(prompt)
        if not prompt or room < 1:
            raise ConfigurationError(
                f"prompt of {len(prompt)} tokens, max_length {question.max_length}: use a prompt of 1 token or more, and a "
                "max_length above it"
            )
        request = GenerationRequest(
            prompt_tokens=prompt,
            seeds_K=(question.seed,),
            max_new_tokens=min(room, question.max_new_tokens),
            temperature=question.temperature,
            stop=question.stop,
        )
        ((completion,),) = self._serving.generate([request])
        logprobs = completion.logprobs
        return Answer(
            text=tokenizer.decode(completion.tokens),
            confidence=exp(fsum(logprobs) / len(logprobs)) if logprobs else None,
            num_prompt_tokens=len(prompt),
            num_answer_tokens=len(completion.tokens),
            finish_reason=completion.finish_reason,
            version=completion.version,
        )

    def choose(self, question: Question, choices: Sequence[str]) -> tuple[int, float]:
        """The index of a choice, drawn from the model's probabilities of these texts alone, and the probability of it.

        **Example** choices "Up" and "Down" of which the model gives "Up" .57: (0, .57) for 57 of 100 seeds.
        """
        request = choice_request(self._serving.tokenizer, self._prompt(question), choices, [question.seed])
        ((completion,),) = self._serving.generate([request])
        return read_choice(request, completion)

    def num_prompt_tokens(self, question: Question) -> int:
        """The tokens that the model reads of a question."""
        return len(self._prompt(question))

    def tensors(self) -> "dict[str, Tensor]":
        """Copies of the adapter's tensors, by their names in PEFT's files. Raises ConfigurationError without an adapter."""
        return self._learning().tensors()

    def update(
        self, gradients: "dict[str, Tensor]", learning_rate: float, *, selection: "Selection" = "adaptive"
    ) -> "StepTaken":
        """Take a step on the adapter, and serve the result.

        Raises ConfigurationError for what is no gradient, LogprobMismatch if the result gives no probabilities; then nothing
        has changed.
        """
        from components.models.adapters import write_adapter

        with self._changing:
            steps = copy.deepcopy(self._learning())
            taken = steps.step(gradients, learning_rate, selection=selection)
            if taken.stepped:
                assert self.adapter is not None, "what learns has an adapter"
                with TemporaryDirectory(dir=self._work) as folder:
                    write_adapter(steps.tensors(), self.adapter, Path(folder))
                    self._swap(Path(folder), self.version.step + 1)
                self._steps = steps
            return taken

    def swap(self, folder: Path, step: int) -> PolicyVersion:
        """Serve the adapter in `folder` as version `step`, and learn on from it with a fresh optimizer.

        Raises ArtifactCorrupt for a folder without such an adapter, LogprobMismatch if its weights give no probabilities; then
        the version before serves on.
        """
        from components.training.adapter_steps import AdapterSteps

        with self._changing:
            self._steps = AdapterSteps(self._swap(folder, step))
            return self.version

    def _prompt(self, question: Question) -> tuple[int, ...]:
        tokenizer = self._serving.tokenizer
        if self._model.settings.prompt_format == "chat":
            return tokenizer.encode_chat(question.instructions, question.prompt)
        return tokenizer.encode(question.instructions + question.prompt)

    def _swap(self, folder: Path, step: int) -> "dict[str, Tensor]":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        from components.models.adapters import adapted_digest, read_adapter_config
        from components.models.digests import tensors_digest

        if self.adapter is None:
            raise ConfigurationError(f"{self.name}: has no adapter; enable LoRA to update or replace weights")
        if read_adapter_config(folder) != self.adapter.model_copy(
            update={"targets": tuple(sorted(self.adapter.targets))}
        ):
            raise ArtifactCorrupt(f"{folder}: its rank, alpha or targets are not those of {self.name}, {self.adapter}")
        try:
            tensors = load_file(folder / "adapter_model.safetensors")
        except (OSError, SafetensorError) as error:
            raise ArtifactCorrupt(f"the adapter in {folder} cannot be read: {error}") from error
        digest = adapted_digest(self._model.base_digest, tensors_digest(tensors))
        version = PolicyVersion(policy=self.name, step=step, weights_digest=digest)
        self._serving.swap(self._model.folder, version, folder)
        return tensors

    def _learning(self) -> "AdapterSteps":
        if self._steps is None:
            raise ConfigurationError(f"{self.name}: has no adapter; enable LoRA to update or replace weights")
        return self._steps
