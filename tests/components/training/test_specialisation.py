"""L1, L2 and L3 with 2 to 4 roles: an update changes exactly the tensors of its policy, and what its engine answers; policies
that are trained side by side end where each would end by itself."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from components.artifacts.codec import encode
from components.config import AdapterConfig, TrainingConfig
from components.errors import ArtifactCorrupt, LogprobMismatch
from components.generation.local.base_models import BaseModels
from components.generation.local.engine import TransformersGenerator
from components.generation.refresh import refresh
from components.models.adapters import ADAPTER_FOLDER, adapter_tensors, add_adapter, use_adapter
from components.models.character_tokenizer import character_tokenizer
from components.schema import PolicyVersion, TrainBatch
from components.training.base import MODEL_FOLDER, CheckpointManifest, UpdateJob
from components.training.checkpoint import read_manifest, write_initial_adapter, write_initial_checkpoint
from components.training.trainer import DeepSpeedTrainer
from tests.sections import choose_generation, choose_loss

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked")]
ADAPTER = AdapterConfig(rank=4, alpha=8.0, targets=("q_proj", "v_proj", "up_proj"))
TRAINING = TrainingConfig(learning_rate=1e-2, tokens_per_micro_batch=256, num_minibatches=1)
PROMPT, COMPLETION = (3, 1, 4, 1, 5), (9, 2, 6)
NUM_UPDATES = 2


@pytest.fixture(scope="module")
def trainers(make_trainer: Callable[[TrainingConfig], DeepSpeedTrainer]) -> Iterator[list[DeepSpeedTrainer]]:
    """Two workers: one for all policies together, one that is given each policy's jobs by themselves."""
    pair = [make_trainer(TRAINING), make_trainer(TRAINING)]
    for trainer in pair:
        trainer.start()
    yield pair
    for trainer in pair:
        trainer.close()


class Team:
    """Policies on disk, each at its newest checkpoint."""

    def __init__(self, folder: Path, level: str, num_roles: int, make_model: Callable[..., Any]) -> None:
        self.folder, self.level = folder, level
        self.policies = ("shared",) if level == "L1" else tuple(f"role-{number}" for number in range(num_roles))
        self.newest: dict[str, Path] = {}
        for number, policy in enumerate(self.policies):
            base = folder / ("base" if level == "L2" else policy) / MODEL_FOLDER
            if not base.exists():
                make_model(seed=0 if level == "L2" else number).save_pretrained(base)
                character_tokenizer("ABCDEFGHIJKLMNOPQRSTUVWXYZ\n ").save_pretrained(base)
            first = folder / f"{policy}-0"
            if level == "L2":
                write_initial_adapter(base, first, policy, adapter=ADAPTER, seed=number)
                (first / MODEL_FOLDER).symlink_to(base)
            else:
                write_initial_checkpoint(base, first, policy)
            self.newest[policy] = first

    def job(self, policy: str, groups: list[Any], output: Path, training: TrainingConfig = TRAINING) -> UpdateJob:
        """An update of `policy` from its newest checkpoint."""
        manifest = read_manifest(self.newest[policy])
        batch_file = output.with_suffix(".batch")
        batch_file.write_bytes(
            encode(TrainBatch(policy=policy, step=manifest.step, groups=tuple(groups), num_groups_without_signal=0))
        )
        return UpdateJob(
            policy=policy,
            step=manifest.step,
            seed=0,
            total_steps=10,
            checkpoint_folder=self.newest[policy],
            weights_digest=manifest.weights_digest,
            optimizer_digest=manifest.optimizer_digest,
            base_digest=manifest.base_digest,
            reference_folder=None,
            batch_file=batch_file,
            output_folder=output,
            temperature=1.0,
            training=training,
            loss=choose_loss(mismatch_tolerance=None),
        )

    def updated(self, trainer: DeepSpeedTrainer, job: UpdateJob) -> CheckpointManifest:
        """Run the job; its output is then the policy's newest checkpoint."""
        manifest = trainer.update(job).manifest
        if self.level == "L2":
            (job.output_folder / MODEL_FOLDER).symlink_to((job.checkpoint_folder / MODEL_FOLDER).resolve())
        self.newest[job.policy] = job.output_folder
        return manifest

    def manifests(self) -> dict[str, CheckpointManifest]:
        return {policy: read_manifest(folder) for policy, folder in self.newest.items()}


def serve(team: Team, engines: Mapping[str, TransformersGenerator]) -> dict[str, tuple[float, ...]]:
    """What each policy's engine thinks of fixed tokens, once it holds and has proved the newest checkpoint."""
    answers = {}
    for policy, folder in team.newest.items():
        manifest = read_manifest(folder)
        refresh(
            engines[policy],
            folder=folder / MODEL_FOLDER,
            adapter=folder / ADAPTER_FOLDER if team.level == "L2" else None,
            version=PolicyVersion(policy=policy, step=manifest.step, weights_digest=manifest.weights_digest),
            probe=manifest.probe,
            tolerance=1e-4,
        )
    for policy in team.newest:
        [answers[policy]] = engines[policy].score([PROMPT], [COMPLETION])
    return answers


@pytest.mark.parametrize(
    ("level", "num_roles"), [("L1", 2), ("L1", 4), *((a, n) for a in ("L2", "L3") for n in (2, 3, 4))]
)
def test_an_update_changes_its_policy_and_no_other(
    level: str,
    num_roles: int,
    trainers: list[DeepSpeedTrainer],
    tmp_path: Path,
    make_model: Callable[..., Any],
    make_groups: Callable[..., list[Any]],
) -> None:
    together, alone = trainers
    team = Team(tmp_path, level, num_roles, make_model)
    bases = BaseModels()
    engines = {policy: TransformersGenerator(choose_generation(), bases) for policy in team.policies}
    digests = {policy: manifest.weights_digest for policy, manifest in team.manifests().items()}
    answers = serve(team, engines)
    for number in range(NUM_UPDATES):
        for index, policy in enumerate(team.policies):
            job = team.job(policy, make_groups(3, seed=10 * number + index), tmp_path / f"{policy}-{number + 1}")
            team.updated(together, job)
            now, heard = {name: m.weights_digest for name, m in team.manifests().items()}, serve(team, engines)
            assert {name for name in team.policies if now[name] != digests[name]} == {policy}
            assert {name for name in team.policies if heard[name] != answers[name]} == {policy}
            digests, answers = now, heard
    if level == "L2":
        assert len({id(engine._model) for engine in engines.values()}) == 1
    for index, policy in enumerate(team.policies):
        team.newest[policy] = tmp_path / f"{policy}-0"
        for number in range(NUM_UPDATES):
            groups = make_groups(3, seed=10 * number + index)
            ended = team.updated(alone, team.job(policy, groups, tmp_path / f"{policy}-alone-{number + 1}"))
        assert ended == read_manifest(tmp_path / f"{policy}-{NUM_UPDATES}")


def test_a_learning_rate_of_one_s_own(
    trainers: list[DeepSpeedTrainer], tmp_path: Path, make_model: Callable[..., Any], make_groups: Callable[..., Any]
) -> None:
    team = Team(tmp_path, "L2", 2, make_model)
    slow = TRAINING.model_copy(update={"learning_rate": 1e-5})
    groups = make_groups(3)
    before = {policy: read_manifest(folder).probe.trainer_logprobs for policy, folder in team.newest.items()}
    moved = {}
    for policy, training in zip(team.policies, (TRAINING, slow), strict=True):
        for number in range(NUM_UPDATES):
            job = team.job(policy, groups, tmp_path / f"{policy}-{number + 1}", training)
            after = team.updated(trainers[0], job).probe.trainer_logprobs
        moved[policy] = max(abs(a - b) for a, b in zip(after, before[policy], strict=True))
    assert moved["role-0"] > 100 * moved["role-1"] > 0


def test_swapped_adapters_are_refused_by_digest(
    trainers: list[DeepSpeedTrainer], tmp_path: Path, make_model: Callable[..., Any], make_groups: Callable[..., Any]
) -> None:
    team = Team(tmp_path, "L2", 2, make_model)
    for number, policy in enumerate(team.policies):
        team.updated(trainers[0], team.job(policy, make_groups(3, seed=number), tmp_path / f"{policy}-1"))
    one, two = (team.newest[policy] / ADAPTER_FOLDER for policy in team.policies)
    one.rename(aside := tmp_path / "aside")
    two.rename(one)
    aside.rename(two)
    job = team.job("role-0", make_groups(3), tmp_path / "role-0-2")
    with pytest.raises(ArtifactCorrupt, match="its weights have digest"):
        trainers[1].update(job)
    engine, manifest = TransformersGenerator(choose_generation()), read_manifest(team.newest["role-0"])
    with pytest.raises(ArtifactCorrupt, match="digest"):
        engine.load(
            team.newest["role-0"] / MODEL_FOLDER,
            PolicyVersion(policy="role-0", step=1, weights_digest=manifest.weights_digest),
            one,
        )
    assert engine.version is None


def test_another_adapter_s_values_trip_the_probe(
    tmp_path: Path, make_model: Callable[..., Any], trainers: list[DeepSpeedTrainer], make_groups: Callable[..., Any]
) -> None:
    team = Team(tmp_path, "L2", 2, make_model)
    team.updated(trainers[0], team.job("role-0", make_groups(3), tmp_path / "role-0-1"))
    engines = {policy: TransformersGenerator(choose_generation()) for policy in team.policies}
    serve(team, engines)
    with torch.no_grad():
        for tensor in adapter_tensors(engines["role-0"]._model, "role-0").values():
            tensor.mul_(-1.5)
    with pytest.raises(LogprobMismatch):
        serve(team, engines)


def test_every_adapter_gets_gradients_in_its_turn(make_model: Callable[..., Any]) -> None:
    model = make_model()
    policies = ("a", "b", "c")
    for number, policy in enumerate(policies):
        add_adapter(model, policy, ADAPTER, seed=number)
    for policy in policies:
        model.zero_grad(set_to_none=True)
        use_adapter(model, policy)
        model(torch.tensor([PROMPT])).logits.logsumexp(-1).sum().backward()
        for other in policies:
            gradients = [tensor.grad for tensor in adapter_tensors(model, other).values()]
            assert all((gradient is not None) == (other == policy) for gradient in gradients)


def test_adapters_of_one_base_answer_side_by_side(
    trainers: list[DeepSpeedTrainer], tmp_path: Path, make_model: Callable[..., Any], make_groups: Callable[..., Any]
) -> None:
    team = Team(tmp_path, "L2", 2, make_model)
    for number, policy in enumerate(team.policies):
        team.updated(trainers[0], team.job(policy, make_groups(3, seed=number), tmp_path / f"{policy}-1"))
    bases = BaseModels()
    engines = {policy: TransformersGenerator(choose_generation(), bases) for policy in team.policies}
    answers = serve(team, engines)
    assert len(set(answers.values())) == 2
    calls = list(team.policies) * 50
    with ThreadPoolExecutor(max_workers=4) as threads:
        heard = list(threads.map(lambda policy: engines[policy].score([PROMPT], [COMPLETION]), calls))
    assert heard == [[answers[policy]] for policy in calls]
