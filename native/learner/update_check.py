"""What an update is computed from: what was asked, its rows, their weights, the policies, each checked by another way
than the one that made it.

Each of these would teach something else without an error. All raise Refused: the step is not taken.
"""

import torch

from .batch import Batch, BatchSequence
from .check_clock import timed
from .errors import Refused
from .fused_weights import ADAPTER, adapted, adapter_of
from .packing import Pack
from .request import Lora, StepRequest


@timed
def check_rows(packs: list[Pack], trajectories: list[BatchSequence]) -> None:
    """Every sampled token is predicted once, by the position before it, which sees the trajectory up to there and
    nothing else: by the mask (`ends`) and by the segments."""
    found = torch.cat([pack.slots for pack in packs]).sort().values
    wanted = torch.cat([_slots(one) for one in trajectories]).sort().values
    if not torch.equal(found, wanted):
        raise Refused(f"the rows of an update have {len(found)} sampled tokens, not each of {len(wanted)} once")
    lasts = {int(_slots(one)[-1]): one for one in trajectories if one.sampled.any()}
    for pack in packs:
        of_slot = {slot: index for index, slot in enumerate(pack.slots.tolist())}
        for trajectory in (lasts[slot] for slot in of_slot if slot in lasts):
            _check_path(pack, trajectory, torch.tensor([of_slot[slot] for slot in _slots(trajectory).tolist()]))


WEIGHED = 1e-5
"""Relative difference of a token's weight in f32 that is rounding."""


@timed
def check_scales(
    scales: torch.Tensor, of_rollout: torch.Tensor, updates: list[torch.Tensor], request: StepRequest
) -> None:
    """Each token weighs in the mean of its update what the objective gives it, by the tokens of its rollout.

    `scales` and `of_rollout` (each token's) are [S of the batch]; `updates`: the tokens of each update.
    """
    whole = len(of_rollout.unique())
    rollouts = whole if request.rollouts is None else request.rollouts
    tokens = len(of_rollout) if request.sampled_tokens is None else request.sampled_tokens
    for slots in updates:
        of, counts = of_rollout[slots].unique(return_inverse=True, return_counts=True)[1:]
        # Rollouts of the step that are not in the batch are shared among its updates.
        played = rollouts * len(counts) / whole
        divisors = {
            "tokens": torch.full(counts.shape, tokens * len(slots) / len(of_rollout), dtype=torch.float64),
            "sequences": counts.double() * played,
            "constant": torch.full(counts.shape, played * (request.max_completion_tokens or 1), dtype=torch.float64),
        }[request.objective.normaliser]
        # A comparison with NaN is false.
        if not ((scales[slots] * divisors[of] - 1).abs() <= WEIGHED).all():
            raise Refused(
                "tokens do not weigh in the mean of an update what their rollouts and the objective "
                f"{request.objective.name} give them"
            )


def _slots(trajectory: BatchSequence) -> torch.Tensor:
    return torch.arange(trajectory.first_slot, trajectory.first_slot + int(trajectory.sampled.sum()))


def _check_path(pack: Pack, trajectory: BatchSequence, own: torch.Tensor) -> None:
    """`own`: indices of the trajectory's tokens in the row."""
    sampled = trajectory.sampled.nonzero().flatten()
    predicting = pack.predicting[pack.sources[own]]
    last, length = int(predicting[-1]), int(sampled[-1])
    path = (pack.ends[: last + 1] > last).nonzero().flatten()
    fits = (
        torch.equal(pack.ids[path], trajectory.ids[:length])
        and torch.equal(pack.positions[path], torch.arange(length))
        and torch.equal(predicting, path[sampled - 1])
        and torch.equal(pack.targets[own], trajectory.ids[sampled])
        and (trajectory.allowed is None or torch.equal(_sets(pack)[pack.sources[own]], trajectory.allowed[sampled]))
        and torch.equal(_by_segments(pack, last), path)
    )
    if not fits:
        raise Refused(
            f"a row of an update has the trajectory with the tokens from {trajectory.first_slot} on with other ids, "
            "positions, predecessors or allowed tokens than its own"
        )


def _sets(pack: Pack) -> torch.Tensor:
    return torch.full_like(pack.predicting, -1) if pack.allowed is None else pack.allowed


def _by_segments(pack: Pack, last: int) -> torch.Tensor:
    """Positions that `last` continues, itself included."""
    start = 0
    for segment in pack.segments:
        if last < start + segment.length:
            return torch.cat([torch.arange(*part) for part in (*segment.before, (start, last + 1))])
        start += segment.length
    return torch.empty(0, dtype=torch.long)


@timed
def check_tokens(trained: torch.Tensor, times: int) -> None:
    """After the updates of a step: its tokens' gradients [S] were added as often as it has epochs, whatever its updates
    and rows are."""
    other = int((trained != times).sum())
    if other:
        raise Refused(f"the gradients of {other} of the step's {len(trained)} tokens were not added {times} times each")


@timed
def check_old(old: torch.Tensor, first: torch.Tensor) -> None:
    """After the updates of a step: log-probabilities under π_old [S] are still those of the `first` time."""
    if not torch.equal(old, first):
        raise Refused("log-probabilities of the policy before the step were made anew between its updates")


MOVES, SLOPE = 1e-9, 1e-4
"""A learning rate and a gradient's norm from which on an update moves the policy: Adam's step has the size of the rate
whatever the gradient is, and of a million numbers some are rounded otherwise."""
ADAPTED = 1e-6
"""Largest number of an adapter's B from which on it moves the policy."""


@timed
def check_ratios(same: list[bool], learning_rate: float, first_norm: float) -> None:
    """After the updates of a step: `same` says of each but the first whether the policy's log-probabilities were those
    of π_old, to the last bit."""
    if same and all(same) and learning_rate >= MOVES and first_norm >= SLOPE:
        raise Refused(
            f"the ratio of the policy to the one before the step was exactly 1 in all of {len(same)} updates after the "
            "first: the updates of the step do not move the policy"
        )


@timed
def check_base(model: torch.nn.Module, is_base: bool) -> None:
    """Before the first update of a step: its policy is not the base model's, to the last bit, where its adapter is not
    0."""
    if not is_base:
        return
    largest = [one.detach().abs().amax() for name, one in model.named_parameters() if ".lora_B." in name]
    if largest and float(torch.stack(largest).amax()) > ADAPTED:
        raise Refused(
            "the policy is the base model, with a KL divergence of exactly 0, though its adapter is not 0: one of "
            "the two was computed as the other"
        )


TOGETHER = {"f32": 2e-3, "f16": 0.02, "bf16": 0.3}
"""Mean difference in nats of a rollout's tokens, computed in a row with others and in one of its own. Siblings that see
each other were at 0.044, positions that go on after a fork at 0.15."""


@timed
def check_apart(together: torch.Tensor, alone: torch.Tensor, precision: str) -> None:
    """Log-probabilities [n] of one rollout's tokens before the update."""
    apart = float((together - alone).abs().mean())
    # A comparison with NaN is false.
    if not apart <= TOGETHER[precision]:
        raise Refused(
            f"a rollout has other log-probabilities in an update's row than in a row of its own: by {apart:.2g} nats "
            f"on average (limit {TOGETHER[precision]:g}, {precision})"
        )


@timed
def check_count(found: int, wanted: int) -> None:
    """Of a step's updates."""
    if found != wanted:
        raise Refused(f"a step of {wanted} updates has made {found}")


@timed
def check_asked(batch: Batch, request: StepRequest) -> None:
    """What the batch says of itself is what the request says of it."""
    if request.temperature is not None and batch.temperature != request.temperature:
        raise Refused(
            f"the learner would train at temperature {batch.temperature:g} what was sampled at {request.temperature:g}"
        )


@timed
def check_adapter(found: str | None, wanted: str | None) -> None:
    """By the digests of their files: the adapter that the learner has is the one to go on from; None: a new one."""
    if wanted not in ("", found):
        raise Refused(f"the learner would go on from {_adapter(found)}, and the run stands at {_adapter(wanted)}")


def _adapter(digest: str | None) -> str:
    return "a new adapter" if digest is None else f"the adapter {digest[:12]}"


@timed
def check_scaled(model: torch.nn.Module, lora: Lora) -> None:
    """The adapter's output is scaled as asked."""
    wanted = lora.alpha / lora.rank
    for name, module in adapted(model):
        if module.scaling[ADAPTER] != wanted:
            raise Refused(f"the adapter of {name} is scaled by {module.scaling[ADAPTER]:g}, not by {wanted:g}")


@timed
def check_trained(model: torch.nn.Module, parameters: list[torch.nn.Parameter]) -> None:
    """Before an update: all of the adapter is trained, and nothing is dropped at random."""
    trained = {id(parameter) for parameter in parameters}
    for name, parameter in adapter_of(model).items():
        if not (parameter.requires_grad and id(parameter) in trained):
            raise Refused(f"the update would leave {name} as it is: it is not trained")
    if any(map(_drops, _modules_of(model))):
        name = next(name for name, module in model.named_modules() if _drops(module))
        raise Refused(f"the model has dropout in {name}: the engine's policy has none")


def _drops(module: torch.nn.Module) -> bool:
    return isinstance(module, torch.nn.Dropout) and module.p > 0 and module.training


def _modules_of(model: torch.nn.Module) -> list[torch.nn.Module]:
    """All of them. PyTorch's walk also names them, which takes four times as long."""
    found = [model]
    # It grows meanwhile.
    for module in found:
        for part in module._modules.values():
            if part is not None:
                found.append(part)
    return found


@timed
def check_clear(parameters: list[torch.nn.Parameter]) -> None:
    """Before the rows of each update: no gradient is left."""
    if any(parameter.grad is not None for parameter in parameters):
        raise Refused("gradients of an earlier update are left: they would be added to this one's")
