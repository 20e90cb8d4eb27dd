"""Requests are read once: what hone sends is a dataclass afterwards, and what it cannot have meant is one line."""

import pytest
from batches import LORA, OBJECTIVES, step_message
from learner.errors import Misunderstood, Refused
from learner.objective import Importance, Objective
from learner.request import AdamSettings, Lora, Policy, read, read_request

OPEN = {"type": "open", "backend": "auto", "base": {"gguf": "m.gguf"}, "lora": LORA, "seed": 2**52 + 5, "threads": 2}
OPEN |= {"device": "cpu", "precision": "auto"}
STEP = {"type": "step", "id": 7} | step_message("batch", "into")


def test_fields_that_hone_leaves_out_have_their_defaults_and_numbers_stay_as_they_were_sent():
    opening = read_request(OPEN)
    assert opening.lora == Lora(4, 8, LORA["targets"]) and type(opening.lora.alpha) is int
    assert (opening.optimizer, opening.resume, opening.lifetime) == (AdamSettings((0.9, 0.99), 0.1), None, "run")
    more = {"betas": [0.8, 0.95], "weightDecay": 0}
    assert read_request(OPEN | {"lora": None, "optimizer": more}).optimizer == AdamSettings((0.8, 0.95), 0)
    step = read_request(STEP | {"playedBy": {"checkpoint": None}, "earlier": {"checkpoint": "0001"}})
    assert step.importance == Importance("token-truncate", 0, 2) and step.objective.clip_low == 0.2
    # The model before any training is a policy too.
    assert (step.played_by, step.earlier, step.previous) == (Policy(None), Policy("0001"), None)


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ({"type": "stop"}, "unknown request 'stop'; the learner has open, step, sft"),
        ({key: STEP[key] for key in STEP if key != "learningRate"}, "the request to the learner has no learningRate"),
        (STEP | {"into": None}, "the request to the learner has into None, not of type str"),
        (STEP | {"epochs": 1.5}, "the request to the learner has epochs 1.5, not of type int"),
        (STEP | {"learningRate": True}, "the request to the learner has learningRate True, not of type float"),
        (STEP | {"earlier": "0001"}, "the request to the learner has earlier '0001', not an object"),
        (OPEN | {"base": {}}, "the request to the learner has no base.gguf"),
        (
            OPEN | {"lora": LORA | {"targets": "q_proj"}},
            "the request to the learner has lora.targets 'q_proj', not a list",
        ),
        (OPEN | {"lora": LORA | {"targets": [1]}}, "the request to the learner has lora.targets 1, not of type str"),
    ],
)
def test_what_is_no_request_of_this_learner_is_not_understood(message, line):
    with pytest.raises(Misunderstood) as refused:
        read_request(message)
    assert str(refused.value) == line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"surrogate": "ppo2"}, "surrogate 'ppo2'; the learner has clipped-ratio, clipped-weight"),
        ({"ratio": "turn"}, "ratio 'turn'; the learner has token, sequence"),
        ({"normaliser": None}, "normaliser None"),
        ({"clipLow": 2}, "the objective dapo has the clipLow 2"),
        ({"clipHigh": -1}, "the objective dapo has the clipHigh -1"),
        ({"clipHigh": None}, "clipHigh None"),
    ],
)
def test_an_objective_that_the_learner_does_not_have_is_refused_by_name(change, message):
    with pytest.raises(Refused, match=message):
        read(Objective, OBJECTIVES["dapo"] | change)


def test_importance_sampling_that_the_learner_does_not_have_is_refused():
    with pytest.raises(Refused, match="mode 'turn-mask'; the learner has off, token-truncate"):
        read(Importance, {"mode": "turn-mask", "low": 0, "high": 2})
    with pytest.raises(Refused, match="bounded by 3 and 2"):
        read(Importance, {"mode": "token-mask", "low": 3, "high": 2})
