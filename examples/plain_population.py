"""A population's training from top to bottom in one loop: no Prefect, no store, no session.

    python plain_population.py 3

Two members play coop_compete, and each learns from both returns. They end in the very weights of `troupe train
population-tiny --steps 3` with the same changes.
"""

import os
import sys
import tempfile
from pathlib import Path

from components.algorithms.batching import train_batches
from components.artifacts.codec import encode
from components.environments.registry import family, family_options
from components.environments.turn_orders import turn_order_of
from components.generation.local.base_models import BaseModels
from components.generation.local.engine import TransformersGenerator
from components.identity import seed_for
from components.machine.package_files import package_file
from components.mathematics.returns import discount_returns
from components.models.adapters import ADAPTER_FOLDER
from components.models.loading import prepare_model_folder
from components.population.credit import ReturnCorrelation, RoleBaselines
from components.population.move_rewards import moves_of
from components.population.training_modes import make_mode_matrix
from components.rewards.rubric import rubric_for
from components.rewards.score import score_shard
from components.rollout.router import Router, bind_roles
from components.rollout.sampler import ShardPlan, collect_shard
from components.rollout.shards import shard_problems
from components.schema import PolicyVersion, ScoredShard
from components.training.base import MODEL_FOLDER, UpdateJob
from components.training.checkpoint import read_manifest, write_initial_adapter
from components.training.trainer import DeepSpeedTrainer
from flows.presets import preset_config

TWO_MEMBERS = (
    "environment.options.num_members=2",
    "agents={player_0: {policy: first}, player_1: {policy: second}}",
    "policies={first: &member {base: tiny, adapter: {rank: 4, alpha: 8}}, second: *member}",
    "method={type: population, training_mode: mixed}",
)


def train(config, work):
    """Member -> the digest of its weights after the last step."""
    mode, credit = config.method.training_mode, config.algorithm  # the settings of the method, and what is credited
    agents = list(config.agents)
    options = family_options(config.environment.name, config.environment.options)
    game = family(config.environment.name, config.environment.answer_format).under(options)
    order, rubric = turn_order_of(game, None), rubric_for(game, config.rewards, from_start=True)
    seats = bind_roles(config, max_action_characters=game.max_action_characters(options))
    bases = BaseModels()
    folders = new_members(config, game.alphabet(options), work)
    engines = {member: TransformersGenerator(config.generation, bases) for member in folders}
    deepspeed = package_file("infra", f"deepspeed/zero{config.training.zero_stage}.json")
    trainer = DeepSpeedTrainer(config.training, deepspeed_config=deepspeed, run_label="plain", environment=os.environ)

    # What the population knows beside its weights: how returns move together, and what each role earns on average.
    rho, baselines = ReturnCorrelation(), RoleBaselines(decay=credit.baseline_decay)
    for step in range(config.num_steps):
        # refresh_weights: each engine serves its member as it is now.
        versions = {member: load_weights(engines[member], folder, work) for member, folder in folders.items()}
        # collect_rollouts: group_size whole games of each problem. compute_rewards: what each answer earned at once.
        router, shards, scores = Router(engines, seats=seats, versions=versions), [], []
        for shard in range(config.rollout.num_shards):
            plan = ShardPlan(
                step=step, shard=shard, seed=config.seed, max_turns=config.environment.max_turns, settings=config.rollout,
                problems=shard_problems(config, game, options, step=step, shard=shard), turn_order=order,
            )  # fmt: skip
            shards.append(collect_shard(plan, family=game, router=router, rubric=rubric))
            scores.append(score_shard(shards[-1], family=game, rubric=rubric, turn_order=order))
        # mix_returns: M = (1 - beta - kappa) I + beta T + kappa D, where rho shares out beta and kappa.
        matrix = make_mode_matrix(mode, len(agents), correlation=rho.value)
        credits = []
        for shard, score in zip(shards, scores, strict=True):
            mixed, rho, baselines = assign_credit(shard, score, agents, game, matrix, credit.discount, rho, baselines)
            credits.append(mixed)
        # compute_advantages: the rows of each member, with their credits as they are.
        silent = config.loss.trains_silent_groups
        batches, _ = train_batches(shards, credits, algorithm=credit, policies=list(folders), with_silent_groups=silent)
        # update_policy: the loss is -min(ratio A, clip(ratio) A) - c H. coordinate_weights: nothing, each learns alone.
        for member, batch in batches.items():
            folders[member] = update_member(trainer, config, step, folders[member], batch, work)
        earned = ", ".join(f"{agent} earns {b:.3f}" for agent, b in baselines.values["turn 0"].items())
        print(f"step {step}: {earned}, rho {rho.value:+.3f}")
    trainer.close()
    return {member: read_manifest(folder).weights_digest for member, folder in folders.items()}


def new_members(config, alphabet, work):
    """warm_start: one random base W for all; each member is W + (alpha / rank) B A, at first with B = 0."""
    base, members = work / MODEL_FOLDER, sorted(config.policies)
    settings, seed = config.policies[members[0]], config.seed
    prepare_model_folder(settings, alphabet=alphabet, seed=seed_for(seed, "model", "+".join(members)), into=base)
    folders = {member: work / f"{member}-new" for member in members}
    for member, folder in folders.items():
        own = seed_for(seed, "adapter", member)
        write_initial_adapter(base, folder, member, adapter=settings.adapter, seed=own, training=config.training)
    return folders


def load_weights(engine, folder, work):
    """The version now in a member's engine."""
    manifest = read_manifest(folder)
    version = PolicyVersion(policy=manifest.policy, step=manifest.step, weights_digest=manifest.weights_digest)
    engine.load(work / MODEL_FOLDER, version, folder / ADAPTER_FOLDER)
    return version


def assign_credit(shard, score, agents, game, matrix, discount, rho, baselines):
    """The shard's credits, and rho and the baselines after it.

    An answer is credited with A = R - b, where R = M G, and G_t = r_t + discount G_(t+1) are the returns of all agents. After
    the episode the average b of its role in that turn becomes decay b + (1 - decay) R.
    """
    credits_E_N_K = []
    for episode, rewards_N_K in zip(shard.episodes, score.rewards_E_N_K, strict=True):
        moves = moves_of(episode, rewards_N_K, agents=agents, acts_together=game.rules.acts_together)
        rewards_T_A = [move.chosen_rewards_A for move in moves]
        mixed_T_A = discount_returns(rewards_T_A, discount) @ matrix.T
        earned = [
            (node, f"turn {move.turn}", agents[agent], float(mixed_A[agent]))
            for move, mixed_A in zip(moves, mixed_T_A, strict=True)
            for node, agent in move.nodes
        ]
        credits_E_N_K.append(tuple((own - baselines.value(turn, agent),) for _, turn, agent, own in sorted(earned)))
        for _, turn, agent, own in earned:
            baselines = baselines.after(turn, agent, own)
        rho = rho.after([sum(rewards_T) for rewards_T in zip(*rewards_T_A, strict=True)])
    return ScoredShard(step=shard.step, shard=shard.shard, rewards_E_N_K=tuple(credits_E_N_K)), rho, baselines


def update_member(trainer, config, step, folder, batch, work):
    """The folder of a member after one update of its adapter."""
    manifest, output = read_manifest(folder), work / f"{batch.policy}-{step}"
    (work / "batch").write_bytes(encode(batch))
    (folder / MODEL_FOLDER).symlink_to(work / MODEL_FOLDER)
    trainer.update(
        UpdateJob(
            policy=batch.policy, step=step, seed=config.seed, total_steps=config.num_steps, checkpoint_folder=folder,
            weights_digest=manifest.weights_digest, optimizer_digest=manifest.optimizer_digest,
            base_digest=manifest.base_digest, reference_folder=None, batch_file=work / "batch", output_folder=output,
            temperature=config.rollout.temperature, training=config.training, loss=config.loss,
        )
    )  # fmt: skip
    return output


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        settings = preset_config("population-tiny", TWO_MEMBERS, num_steps=int(sys.argv[1]))
        for name, digest in train(settings, Path(folder)).items():
            print(f"{name}: {digest}")
