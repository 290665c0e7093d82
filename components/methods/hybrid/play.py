"""The steps of hybrid training in a session: play, learn, evaluate."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from components.algorithms.batching import join_by_prompt
from components.artifacts.payloads import put
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config import RunConfig
from components.config.hybrid import LEARNER_POLICY, PLAYER, Teacher, find_tuned_model
from components.evaluation.held_out import Sampling
from components.hybrid.language_model import Draw
from components.identity import GroupKey, seed_for
from components.machine.torch_state import computing_with
from components.methods.hybrid.learner_checkpoints import lesson_in, read_learner, store_learner, with_lesson
from components.methods.hybrid.settings import games_opener, hybrid_config, hybrid_settings, open_emulated_games
from components.metrics import SUCCESS_RATE
from components.runs.run import CollectedStep, PolicyUpdate
from components.schema import PolicyVersion, TrainBatch, TrainGroup
from components.session.scenario import SUITE_SEED
from components.session.session import Session

if TYPE_CHECKING:
    from components.hybrid.experience import StepAdvice
    from components.hybrid.llm_actor import LlmActor

_TRAIN = "train/policy/"
"""How the learner's own metrics begin; in a report they have the name of its policy."""
_NAMES = {"rollout/goal_rate": SUCCESS_RATE}
"""To reach the goal is what other runs call success."""
_START = "A new game. You are in the town, without a monster."


def find_llm_actor(session: Session, versions: Mapping[str, PolicyVersion], *, draw: int = 0) -> "LlmActor | None":
    """The language model that may be asked for buttons, whose weights are loaded; None in modes without one.

    One that learns draws for each game and step; `draw` tells one play from another.
    """
    from components.hybrid.language_model import LanguageModelAdviser, TrainableLlmActor

    if not hybrid_config(session.config).mode.asks_for_buttons:
        return None
    policy, seed = session.config.agents[PLAYER].policy, session.config.seed
    engine, version = session.engines.of(policy), versions[policy]
    is_chat = session.config.policies[policy].prompt_format == "chat"
    if find_tuned_model(session.config) is not None:
        return TrainableLlmActor(engine, version, seed=seed_for(seed, "advice", draw), is_chat=is_chat)
    return LanguageModelAdviser(engine, version, seed=seed, is_chat=is_chat)


def make_initial_learner(session: Session, models: Mapping[str, CheckpointRef]) -> CheckpointRef:
    """Checkpoint 0 of the learner. In mode teacher the language model writes its lesson now."""
    from components.hybrid.experience import new_learner_state

    config = hybrid_config(session.config)
    lesson = "\n".join(config.subgoals)
    if isinstance(config.mode, Teacher) and not lesson:
        lesson = _write_lesson(session, models)
    settings = hybrid_settings(session.scenario, lesson)
    with computing_with(1):
        state = new_learner_state(settings, session.config.seed, open_games=games_opener(config))
    return store_learner(session, with_lesson(state, lesson), step=0)


def _write_lesson(session: Session, models: Mapping[str, CheckpointRef]) -> str:
    from components.hybrid.language_model import LanguageModelTeacher
    from components.session.checkpoint_loading import load_checkpoint
    from components.session.engines import list_fixed_versions

    policy = session.config.agents[PLAYER].policy
    known = list_fixed_versions(session.config)
    version = load_checkpoint(session, models[policy])[0] if policy in models else known[policy]
    teacher = LanguageModelTeacher(session.engines.of(policy), version)
    badges = hybrid_settings(session.scenario).goal_badges
    return teacher.write_lesson(_START, f"win {badges} badges", seed=session.config.seed).text


def collect(
    session: Session, step: int, checkpoint: CheckpointRef, versions: Mapping[str, PolicyVersion]
) -> CollectedStep:
    """What a step of play brought, stored."""
    from components.hybrid.experience import StepAdvice, collect_experience

    state = read_learner(session, checkpoint)
    llm_actor, advised = find_llm_actor(session, versions, draw=step), StepAdvice()
    with computing_with(1):
        experience = collect_experience(
            hybrid_settings(session.scenario, lesson_in(state)),
            state,
            session.config.seed,
            step,
            llm_actor=llm_actor,
            open_games=games_opener(hybrid_config(session.config)),
            advised=advised,
        )
    metrics = {_NAMES.get(name, name): value for name, value in experience.metrics.items()}
    advice, told = _store_advice(session, step, llm_actor, advised)
    return CollectedStep(experience=session.kept.put(experience), metrics=metrics | told, advice=advice)


def _store_advice(
    session: Session, step: int, llm_actor: "LlmActor | None", advised: "StepAdvice"
) -> tuple[ArtifactRef | None, dict[str, float]]:
    """The batch that the language model learns from, and its metrics; None where it learns nothing."""
    from components.hybrid.language_model import TrainableLlmActor

    if not isinstance(llm_actor, TrainableLlmActor):
        return None, {}
    batch = advice_batch(
        llm_actor.draws, advised.draws_T_N, advised.advantages_T_N, agent=PLAYER, step=step, version=llm_actor.version
    )
    return put(session.store, batch), {f"signal/{name}": value for name, value in batch.metrics.items()}


def list_learned_parts(config: RunConfig, played: CollectedStep) -> dict[str, ArtifactRef]:
    """What each policy that learns has to learn from: the RL learner its experience, a language model its own buttons."""
    parts = {LEARNER_POLICY: played.experience}
    if played.advice is not None:
        model = find_tuned_model(config)
        assert model is not None, "only a model that learns leaves advice"
        parts[model] = played.advice
    return parts


def update(session: Session, step: int, checkpoint: CheckpointRef, experience: ArtifactRef) -> PolicyUpdate:
    """The learner after a step, stored."""
    from components.hybrid.experience import Experience, update_learner

    state, played = read_learner(session, checkpoint), session.kept.get(experience, Experience)
    settings = hybrid_settings(session.scenario, lesson_in(state))
    with computing_with(1):
        after, metrics = update_learner(settings, state, played, session.config.seed)
    return PolicyUpdate(
        checkpoint=store_learner(session, with_lesson(after, lesson_in(state)), step=step + 1),
        metrics={name.removeprefix(_TRAIN): value for name, value in metrics.items() if name.startswith(_TRAIN)},
    )


def episode_picture(
    session: Session, sampling: Sampling, checkpoint: CheckpointRef, versions: Mapping[str, PolicyVersion]
) -> bytes:
    """An episode on the cartridge from the first start of its own evaluations, as a GIF of at most 300 pictures and 1 MiB. A
    run on the cartridge's rules in NumPy plays the cartridge all the same: it is the same game.

    Raises ServiceMissing without the emulator.
    """
    from components.hybrid.evaluation_games import make_held_out_settings, make_trained_agent
    from components.hybrid.game_boy.episode_gif import play_frames, short_gif

    config, state = hybrid_config(session.config), read_learner(session, checkpoint)
    settings = hybrid_settings(session.scenario, lesson_in(state))
    seed = seed_for(SUITE_SEED, "game_boy", 0)
    with (
        computing_with(1),
        open_emulated_games(config, make_held_out_settings(settings, 1), seed, renders=True) as games,
    ):
        agent = make_trained_agent(
            settings,
            state,
            1,
            seed=seed,
            is_greedy=sampling == "greedy",
            llm_actor=find_llm_actor(session, versions),
        )
        return short_gif(list(play_frames(games, agent)))


_EPSILON = 1e-6


def advice_batch(
    draws: Sequence[Draw],
    draws_T_N: Sequence[Sequence[int | None]],
    advantages_T_N: NDArray[np.float32],
    *,
    agent: str,
    step: int,
    version: PolicyVersion,
) -> TrainBatch:
    """The rows of the draws that were played, with their advantages less the mean, divided by the standard deviation.

    `draws_T_N` is the number of the draw behind each decision of step T in game N, None where somebody else decided. Draws that
    nobody played are left out. Rows of equal prompts are one group, so that the prompt is computed once.

    **Example** draws 0 and 1 with advantages 3 and 1: 1 and -1.
    """
    earned = {
        draw: float(advantages_T_N[t, n])
        for t, draws_N in enumerate(draws_T_N)
        for n, draw in enumerate(draws_N)
        if draw is not None
    }
    values = np.array([*earned.values()], np.float64)
    spread = values.std() if len(values) else 0.0
    normalised = (values - values.mean()) / (spread + _EPSILON) if spread > 0 else np.zeros(len(values))
    groups = [
        TrainGroup(
            group=GroupKey(problem_id="advice", episode=draw, turn=0, agent=agent),
            prompt_tokens=draws[draw].prompt_tokens,
            completions_K_T=(draws[draw].tokens,),
            sampler_logprobs_K_T=(draws[draw].logprobs,),
            advantages_K=(advantage,),
            choices=draws[draw].choices,
        )
        for draw, advantage in zip(earned, normalised.tolist(), strict=True)
    ]
    return TrainBatch(
        policy=version.policy,
        step=step,
        groups=join_by_prompt(groups) if spread > 0 else (),
        num_groups_without_signal=0 if spread > 0 else len(groups),
        metrics={"num_draws": float(len(values)), "mean_advantage": float(values.mean()) if len(values) else 0.0},
        version=version,
        agents=(agent,),
    )
