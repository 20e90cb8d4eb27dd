"""Many tensors copied at once, of several types, shapes and orders of elements."""

import pytest
import torch
from learner import copies as module
from learner.copies import copies, on_host, put


def some():
    generator = torch.Generator().manual_seed(0)

    def numbers(*shape):
        return torch.randn(*shape, generator=generator)

    odd = torch.tensor([-0.0, float("inf"), 1e-42])
    return [torch.nn.Parameter(numbers(3, 5)), numbers(4, 6).T, numbers(7).bfloat16(), odd, torch.tensor(3.0)]


def same(ones, others):
    return all(
        a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b) and torch.equal(a.signbit(), b.signbit())
        for a, b in zip(ones, others, strict=True)
    )


def test_copies_are_the_same_numbers_in_memory_of_their_own():
    given = some()
    made = copies(given)
    assert same(made, given) and not any(one.requires_grad for one in made)
    for one in made:
        one.zero_()
    assert same(given, some())


def test_what_is_put_is_seen_as_a_change_by_autograd():
    """Factors of products are renewed when a parameter's version has changed."""
    given, parameters = some()[:2], [torch.nn.Parameter(torch.zeros(3, 5)), torch.nn.Parameter(torch.zeros(6, 4))]
    put(parameters, given)
    assert same(parameters, given)
    assert all(one._version > 0 for one in parameters)


def test_values_of_another_type_are_converted():
    (target,), value = [torch.zeros(3, 5)], some()[0].detach()
    put([target], [value.bfloat16()])
    assert torch.equal(target, value.bfloat16().float())


def test_tensors_without_a_partner_are_refused():
    with pytest.raises(ValueError, match="2 tensors cannot be put into 1"):
        put(some()[:1], some()[:2])


@pytest.mark.parametrize("host", ["cpu", "of another machine"])
def test_on_the_host_they_are_the_same(monkeypatch, host):
    # With another host's name they go the way of a card's, in one piece for each type.
    monkeypatch.setattr(module, "HOST", host)
    assert same(on_host(some()), some())
    assert on_host([]) == []
