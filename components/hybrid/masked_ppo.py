"""Proximal policy optimisation with masked actions (Schulman et al., arXiv:1707.06347; masks: Huang and Ontanon,
arXiv:2006.14171), small enough to be resumed bit for bit. The only module here that needs torch.

One generator draws the first weights, the actions and the minibatches; nothing touches the generators that a process shares.
The state of a learner is one dictionary. Axes: T steps of a rollout, N games, A actions, B rows, S what the policy sees of a
game: 25 state variables, or with a convolutional network two axes, the 72 by 80 greys of its screen as bytes.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from components.errors import ConfigurationError
from components.hybrid.game_facts import pack_screens, unpack_screens
from components.mathematics.surrogates import clip_surrogate

_OF_STATES = ("num_states", "state_gains")
"""What a network that sees the screen does not use."""
_HIDDEN_GAIN = 2**0.5
_NUM_FEATURES = 32 * 7 * 8
"""What the convolutions make of a screen."""


class Step(Protocol):
    """What the learner needs of a step of N games: see `game_facts.GamesStep`."""

    @property
    def rewards_N(self) -> NDArray[Any]: ...
    @property
    def ended_N(self) -> NDArray[Any]: ...
    @property
    def cut_N(self) -> NDArray[Any]: ...
    @property
    def final_states_N_S(self) -> NDArray[Any]: ...


class Games(Protocol):
    """N games that begin anew by themselves."""

    def states(self) -> NDArray[Any]: ...
    def masks(self) -> NDArray[Any]: ...
    def step(self, actions_N: NDArray[Any]) -> Step: ...


Chooser = Callable[[NDArray[Any], NDArray[Any]], tuple[NDArray[Any], NDArray[Any]]]
"""Given the states and masks of a step: the action of each game (N,), and whether the policy chose it (N,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PPORule:
    """How the learner learns: fixed for a run. `steps` are those of a rollout in each game, `trace` is GAE's lambda.

    `network` mlp has two hidden layers of `width` over the state variables; cnn two convolutions over the screen, and one
    hidden layer of `width`. `state_gains` multiply the state variables before they reach an mlp, one for each; none: as they
    are.
    """

    network: Literal["mlp", "cnn"] = "mlp"
    num_states: int = 25
    num_actions: int = 9
    width: int = 64
    steps: int = 128
    minibatch: int = 512
    epochs: int = 4
    learning_rate: float = 1e-3
    discount: float = 0.99
    trace: float = 0.95
    clip: float = 0.2
    entropy_weight: float = 0.01
    value_weight: float = 0.5
    largest_gradient: float = 0.5
    reward_scale: float = 0.1
    state_gains: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.state_gains and len(self.state_gains) != self.num_states:
            raise ConfigurationError(
                f"state_gains: {len(self.state_gains)} numbers for {self.num_states} state variables"
            )
        if self.network not in ("mlp", "cnn"):
            raise ConfigurationError(f"network {self.network!r}: use mlp or cnn")
        for each in fields(self):
            if self.sees_screens and each.name in _OF_STATES and getattr(self, each.name) != each.default:
                raise ConfigurationError(
                    f"{each.name} {getattr(self, each.name)}: network cnn sees no state variables; leave it out, or use mlp"
                )
        for name, value in asdict(self).items():
            if name in ("network", "state_gains"):
                continue
            may_be_zero = name in ("entropy_weight", "value_weight", "trace", "discount")
            if value < 0 or (value == 0 and not may_be_zero):
                raise ConfigurationError(f"{name} {value}: give a positive number")
        if self.discount > 1 or self.trace > 1:
            raise ConfigurationError(f"discount {self.discount}, trace {self.trace}: give numbers up to 1")

    @property
    def sees_screens(self) -> bool:
        """Whether what the policy sees is the screen."""
        return self.network == "cnn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """T * N steps as rows for `update`, game by game within a step."""

    states_B_S: Tensor
    masks_B_A: Tensor
    actions_B: Tensor
    logprobs_B: Tensor
    advantages_B: Tensor
    returns_B: Tensor

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.actions_B)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The columns by name; screens are packed."""
        arrays = {each.name: getattr(self, each.name).numpy() for each in fields(self)}
        if self.states_B_S.dtype == torch.uint8:
            arrays["states_B_S"] = pack_screens(arrays["states_B_S"])
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The rollout whose `to_arrays` these are. Raises ArtifactCorrupt for screens that are damaged."""
        states = arrays["states_B_S"]
        if states.dtype == np.int64:
            arrays = {**arrays, "states_B_S": unpack_screens(states, len(arrays["actions_B"]))}
        return cls(**{name: torch.as_tensor(values) for name, values in arrays.items()})


def mask_logprobs(logits_B_A: Tensor, masks_B_A: Tensor) -> Tensor:
    """The log-probabilities of the softmax over allowed actions alone (B, A); those of others are hugely negative, exp gives 0.

    Raises ValueError for a row that allows nothing.

    **Example** logits (0, 0, 5), masks (1, 1, 0): log .5, log .5, and the lowest number.
    """
    if not bool(masks_B_A.any(-1).all()):
        raise ValueError("a mask allows no action: allow at least one, as `action_masks` does")
    lowest = torch.finfo(logits_B_A.dtype).min
    return torch.log_softmax(logits_B_A.masked_fill(~masks_B_A, lowest), -1)


def estimate_advantages(
    rewards_T_N: Tensor, values_T_N: Tensor, last_values_N: Tensor, over_T_N: Tensor, discount: float, trace: float
) -> Tensor:
    """The advantage of each step (T, N): `sum over k of (discount * trace)^k * delta_(t+k)`, up to where an episode is over.

    `delta_t = r_t + discount * V_(t+1) - V_t`, without V_(t+1) where it is over (Schulman et al., arXiv:1506.02438, eq. 16).
    `last_values_N` are those of the states after the last step.

    **Example** discount .5, trace 1, rewards (1, 2), all values 0: (1 + .5 * 2, 2) = (2, 2); over after the first: (1, 2).
    """
    advantages_T_N = torch.empty_like(rewards_T_N)
    carried_N, next_values_N = torch.zeros_like(last_values_N), last_values_N
    for step in reversed(range(len(rewards_T_N))):
        goes_on_N = (~over_T_N[step]).to(rewards_T_N.dtype)
        delta_N = rewards_T_N[step] + discount * next_values_N * goes_on_N - values_T_N[step]
        carried_N = delta_N + discount * trace * goes_on_N * carried_N
        advantages_T_N[step], next_values_N = carried_N, values_T_N[step]
    return advantages_T_N


class MaskedPPO:
    """A policy and a value function, two networks of one form, and their optimiser. Equal seeds and equal games learn alike."""

    def __init__(self, rule: PPORule, *, seed: int) -> None:
        self.rule = rule
        self._gains_S = torch.tensor(rule.state_gains or (1.0,) * rule.num_states)
        self._generator = torch.Generator().manual_seed(seed)
        self._policy = _network(rule, rule.num_actions, 0.01, self._generator)
        self._value = _network(rule, 1, 0.0, self._generator)  # it expects nothing until it has learned
        self._both = nn.ModuleList([self._policy, self._value])
        self._adam = torch.optim.Adam(self._both.parameters(), lr=rule.learning_rate, eps=1e-5)
        self.num_updates = 0

    def choose(
        self, states_N_S: NDArray[Any], masks_N_A: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """An action of each game (N,), drawn from the policy, and the probabilities it was drawn from (N, A).

        **Example** a new learner, 8 of 9 actions allowed: each has a probability of about 1/8, the ninth exactly 0.
        """
        actions_N, logprobs_N_A = self._draw(self._encode_states(states_N_S), torch.as_tensor(masks_N_A))
        return actions_N.numpy(), logprobs_N_A.exp().numpy()

    def collect(self, games: Games, choose: Chooser | None = None) -> Rollout:
        """The first part of `collect_with_advantages`."""
        return self.collect_with_advantages(games, choose)[0]

    def collect_with_advantages(
        self, games: Games, choose: Chooser | None = None
    ) -> tuple[Rollout, NDArray[np.float32]]:
        """The next `rule.steps` steps of the games, played by the policy, or by `choose`: then its own rows alone are returned.
        Beside them the advantages of all decisions (T, N), whoever made them.

        A cut episode is not over: the reward of its last step has the discounted value of the state that it was cut at.

        **Example** 128 steps of 16 games: 2,048 rows; where another has a quarter of the decisions 1,536.
        """
        rule = self.rule
        rows: list[tuple[Tensor, ...]] = []
        for _ in range(rule.steps):
            states_N_S, masks_N_A = self._encode_states(games.states()), torch.as_tensor(games.masks())
            actions_N, own_N, logprobs_N = self._play(states_N_S, masks_N_A, choose)
            step = games.step(actions_N.numpy())
            with torch.no_grad():
                values_N, final_values_N = (
                    self._values(states_N_S),
                    self._values(self._encode_states(step.final_states_N_S)),
                )
            cut_N = torch.as_tensor(step.cut_N)
            rewards_N = torch.as_tensor(step.rewards_N, dtype=torch.float32)
            paid_N = rule.reward_scale * rewards_N + rule.discount * cut_N * final_values_N
            over_N = torch.as_tensor(step.ended_N) | cut_N
            rows.append((states_N_S, masks_N_A, actions_N, own_N, logprobs_N, values_N, paid_N, over_N))
        states, masks, actions, own, logprobs, values, rewards, over = map(torch.stack, zip(*rows, strict=True))
        with torch.no_grad():
            last_values_N = self._values(self._encode_states(games.states()))
        advantages = estimate_advantages(rewards, values, last_values_N, over, rule.discount, rule.trace)
        rollout = Rollout(
            states_B_S=states[own],
            masks_B_A=masks[own],
            actions_B=actions[own],
            logprobs_B=logprobs[own],
            advantages_B=advantages[own],
            returns_B=(advantages + values)[own],
        )
        return rollout, advantages.numpy()

    def update(self, rollout: Rollout) -> dict[str, float]:
        """The means over all minibatches of `policy_loss`, `value_loss`, `entropy` and `clip_frac`, after the update.

        The loss is that of the paper, eq. 9, with advantages normalised in each minibatch; `clip_frac` is the share of rows
        whose ratio is clipped.

        **Example** 2,048 rows, minibatches of 512, 4 epochs: 16 steps of the optimiser.
        """
        sums = dict.fromkeys(("policy_loss", "value_loss", "entropy", "clip_frac"), 0.0)
        num_minibatches = 0
        for _ in range(self.rule.epochs):
            order = torch.randperm(len(rollout.actions_B), generator=self._generator)
            for first in range(0, len(order), self.rule.minibatch):
                loss, parts = self._loss(rollout, order[first : first + self.rule.minibatch])
                self._adam.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(self._both.parameters(), self.rule.largest_gradient)
                self._adam.step()
                num_minibatches += 1
                sums = {name: sums[name] + float(parts[name]) for name in sums}
        self.num_updates += 1
        return {name: value / num_minibatches for name, value in sums.items()}

    def state_dict(self) -> dict[str, Any]:
        """All that decides how the learner goes on, beside its rule, between an update and the next `collect`."""
        return {
            "weights": {name: value.clone() for name, value in self._both.state_dict().items()},
            "optimizer": _copy_optimizer_state(self._adam.state_dict()),
            "generator": self._generator.get_state(),
            "num_updates": self.num_updates,
        }

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Weights and optimiser as named arrays: all that counts of a learner that is reseeded before each use."""
        state = self.state_dict()
        weights = {f"weights.{name}": value.numpy() for name, value in state["weights"].items()}
        moments = {
            f"optimizer.{number}.{name}": value.numpy()
            for number, each in state["optimizer"]["state"].items()
            for name, value in each.items()
        }
        return weights | moments

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `to_arrays` of a learner with the same rule returned; other names are left alone."""
        state = self.state_dict()
        weights: dict[str, Tensor] = {}
        moments: dict[int, dict[str, Tensor]] = {}
        for name, values in arrays.items():
            kind, _, rest = name.partition(".")
            if kind == "weights":
                weights[rest] = torch.as_tensor(values)
            elif kind == "optimizer":
                number, _, part = rest.partition(".")
                moments.setdefault(int(number), {})[part] = torch.as_tensor(values)
        self.load_state_dict(state | {"weights": weights, "optimizer": state["optimizer"] | {"state": moments}})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` of a learner with the same rule returned."""
        self._both.load_state_dict(state["weights"])
        self._adam.load_state_dict(_copy_optimizer_state(state["optimizer"]))
        self._generator.set_state(state["generator"])
        self.num_updates = state["num_updates"]

    def _loss(self, rollout: Rollout, rows: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        rule, states_B_S = self.rule, rollout.states_B_S[rows]
        logprobs_B_A = mask_logprobs(self._policy(self._inputs(states_B_S)), rollout.masks_B_A[rows])
        advantages_B = rollout.advantages_B[rows]
        advantages_B = (advantages_B - advantages_B.mean()) / (advantages_B.std(correction=0) + 1e-8)
        ratios_B = (logprobs_B_A.gather(1, rollout.actions_B[rows, None])[:, 0] - rollout.logprobs_B[rows]).exp()
        policy_loss = -clip_surrogate(ratios_B, advantages_B, low=rule.clip, high=rule.clip).mean()
        value_loss = (self._values(states_B_S) - rollout.returns_B[rows]).square().mean()
        entropy = -(logprobs_B_A.exp() * logprobs_B_A).sum(-1).mean()
        loss = policy_loss + rule.value_weight * value_loss - rule.entropy_weight * entropy
        clip_frac = (ratios_B != ratios_B.clamp(1 - rule.clip, 1 + rule.clip)).float().mean()
        parts = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy, "clip_frac": clip_frac}
        return loss, {name: value.detach() for name, value in parts.items()}

    def reseed(self, seed: int) -> None:
        """Draw from here on as a learner that was just seeded with this number: then there is no generator to save."""
        self._generator.manual_seed(seed)

    def _play(self, states_N_S: Tensor, masks_N_A: Tensor, choose: Chooser | None) -> tuple[Tensor, Tensor, Tensor]:
        """The actions of a step, which of them are the policy's own, and their log-probabilities under the policy (N,)."""
        if choose is None:
            actions_N, logprobs_N_A = self._draw(states_N_S, masks_N_A)
            own_N = torch.ones_like(actions_N, dtype=torch.bool)
        else:
            actions_N, own_N = map(torch.as_tensor, choose(states_N_S.numpy(), masks_N_A.numpy()))
            with torch.no_grad():
                logprobs_N_A = mask_logprobs(self._policy(self._inputs(states_N_S)), masks_N_A)
        return actions_N, own_N, logprobs_N_A.gather(1, actions_N[:, None])[:, 0]

    def _draw(self, states_N_S: Tensor, masks_N_A: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            logprobs_N_A = mask_logprobs(self._policy(self._inputs(states_N_S)), masks_N_A)
        return torch.multinomial(logprobs_N_A.exp(), 1, generator=self._generator)[:, 0], logprobs_N_A

    def _values(self, states_B_S: Tensor) -> Tensor:
        values_B: Tensor = self._value(self._inputs(states_B_S)).squeeze(-1)
        return values_B

    def _encode_states(self, states_N_S: NDArray[Any]) -> Tensor:
        """What the policy sees, as it is kept: bytes of a screen, numbers else."""
        return torch.as_tensor(states_N_S, dtype=torch.uint8 if self.rule.sees_screens else torch.float32)

    def _inputs(self, states_B_S: Tensor) -> Tensor:
        """What the networks are given: a screen as one channel of 0 to 1."""
        return states_B_S[:, None] / 255 if self.rule.sees_screens else states_B_S * self._gains_S


def _network(rule: PPORule, outputs: int, gain: float, generator: torch.Generator) -> nn.Sequential:
    """Hidden layers with tanh, behind convolutions where a screen is seen; orthogonal weights of the generator alone."""
    layers = _convolutions(generator) if rule.sees_screens else []
    first = (_NUM_FEATURES,) if rule.sees_screens else (rule.num_states, rule.width)
    sizes: tuple[int, ...] = (*first, rule.width, outputs)
    gains = (*(_HIDDEN_GAIN for _ in sizes[2:]), gain)
    for inputs, size, layer_gain in zip(sizes, sizes[1:], gains, strict=False):
        linear: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, size)  # type: ignore[no-untyped-call]
        layers += [_draw_weights(linear, layer_gain, generator), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def _convolutions(generator: torch.Generator) -> list[nn.Module]:
    """What makes features of a screen (B, 1, 72, 80): 16 channels of 17 by 19, then 32 of 7 by 8, in one row."""
    layers: list[nn.Module] = []
    for inputs, channels, size, stride in ((1, 16, 8, 4), (16, 32, 4, 2)):
        made: nn.Conv2d = nn.utils.skip_init(nn.Conv2d, inputs, channels, size, stride=stride)  # type: ignore[no-untyped-call]
        layers += [_draw_weights(made, _HIDDEN_GAIN, generator), nn.ReLU()]
    return [*layers, nn.Flatten()]


def _draw_weights(layer: nn.Linear | nn.Conv2d, gain: float, generator: torch.Generator) -> nn.Module:
    nn.init.orthogonal_(layer.weight, gain, generator=generator)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def _copy_optimizer_state(optimizer_state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of an optimiser that shares no tensor with it."""
    moments = {
        number: {name: value.clone() for name, value in each.items()}
        for number, each in optimizer_state["state"].items()
    }
    return {"state": moments, "param_groups": optimizer_state["param_groups"]}
