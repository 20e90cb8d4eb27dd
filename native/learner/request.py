"""What hone asks of the learner, read once: the objects of src/core/learn/types.ts, which says what each field means.

Plain data, since a request to open a model is read before PyTorch is imported. Fields that are not named here are left
out: hone addresses a request by its `id`, for example.
"""

from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

from .errors import Misunderstood, Refused
from .objective import LossSettings

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class BaseModel:
    gguf: str
    hf: str | None = None


@dataclass(frozen=True)
class Lora:
    rank: int
    alpha: float
    targets: list[str]


@dataclass(frozen=True)
class AdamSettings:
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.1


@dataclass(frozen=True)
class OpenRequest:
    backend: Literal["peft", "unsloth", "auto"]
    base: BaseModel
    lora: Lora | None
    seed: int
    threads: int
    device: str
    precision: Literal["auto", "f32", "f16", "bf16"]
    resume: str | None = None
    optimizer: AdamSettings = AdamSettings()
    lifetime: Literal["run", "step", "offload"] = "run"


@dataclass(frozen=True)
class Policy:
    checkpoint: str | None


@dataclass(frozen=True)
class TrainingRequest:
    batch: str
    into: str
    learning_rate: float
    max_grad_norm: float
    micro_batch_tokens: int
    gradient_checkpointing: bool


@dataclass(frozen=True)
class StepRequest(LossSettings, TrainingRequest):
    max_completion_tokens: int | None = None
    temperature: float | None = None
    """Of the batch, once more; None: not said."""
    adapter: str | None = ""
    """SHA-256 of the file for the engine of the adapter to go on from; None: of a new one, "": not said."""
    rollouts: int | None = None
    sampled_tokens: int | None = None
    epochs: int = 1
    minibatches: int = 1
    seed: int = 0
    played_by: Policy | None = None
    earlier: Policy | None = None
    previous: Policy | None = None
    adapter_type: str = "f32"


@dataclass(frozen=True)
class SftRequest(TrainingRequest):
    warmup: float
    epochs: int
    update_trajectories: int


REQUESTS = {"open": OpenRequest, "step": StepRequest, "sft": SftRequest}


def read_request(message: dict[str, Any]) -> OpenRequest | TrainingRequest:
    """Raises Misunderstood for an unknown request and where a field is missing or of another type, Refused for a value
    that the learner does not have."""
    kind = REQUESTS.get(message.get("type"))
    if kind is None:
        raise Misunderstood(f"unknown request {message.get('type')!r}; the learner has {', '.join(REQUESTS)}")
    return read(kind, message)


def read(kind: type[Kind], record: Any, path: str = "") -> Kind:
    """The dataclass from an object whose names are in camelCase. `path`: where in the request it stands.

    Numbers stay as they were sent: an integer is a float too.
    """
    if not isinstance(record, dict):
        raise Misunderstood(f"{_given(path, record)}, not an object")
    found = {}
    for field in fields(kind):
        first, *others = field.name.split("_")
        name = first + "".join(map(str.capitalize, others))
        place = f"{path}.{name}" if path else name
        if name in record:
            found[field.name] = _value(field.type, record[name], place)
        elif field.default is MISSING:
            raise Misunderstood(f"the request to the learner has no {place}")
    return kind(**found)


def _value(kind: Any, value: Any, path: str) -> Any:
    outer, parts = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return read(kind, value, path)
    if outer is UnionType:
        return None if value is None else _value(parts[0], value, path)
    if outer in (list, tuple):
        if not isinstance(value, list):
            raise Misunderstood(f"{_given(path, value)}, not a list")
        return outer(_value(parts[0], one, path) for one in value)
    if outer is Literal:
        if value not in parts:
            raise Refused(f"{_given(path, value)}; the learner has {', '.join(parts)}")
    elif type(value) is not kind and (kind, type(value)) != (float, int):
        raise Misunderstood(f"{_given(path, value)}, not of type {kind.__name__}")
    return value


def _given(path: str, value: Any) -> str:
    return f"the request to the learner has {path} {value!r}"
