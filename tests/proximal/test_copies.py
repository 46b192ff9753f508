"""Copies and pickles: the copy is pulled to the copied target, never to the original."""

import copy
import pickle
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from proxrl.proximal import Proximal


class Algorithm:
    """Networks and optimizer in one object, as in typical libraries."""

    def __init__(self, anchor: str) -> None:
        torch.manual_seed(0)
        self.online = nn.Linear(2, 1)
        self.target = nn.Linear(2, 1).requires_grad_(False)
        given: Any = {
            "module": self.target,
            "list": list(self.target.parameters()),
            "method": self.target_parameters,
        }[anchor]
        self.optimizer = Proximal(torch.optim.Adam(self.online.parameters(), 0.1), given, c=0.4)
        self.learn(3)

    def target_parameters(self) -> Iterable[Tensor]:
        return self.target.parameters()

    def learn(self, updates: int) -> list[float]:
        for _ in range(updates):
            self.optimizer.zero_grad()
            self.online(torch.ones(4, 2)).square().mean().backward()
            self.optimizer.step()
        return nn.utils.parameters_to_vector(self.online.parameters()).tolist()


def by_pickle(algorithm: Algorithm) -> Algorithm:
    return pickle.loads(pickle.dumps(algorithm))  # type: ignore[no-any-return]


@pytest.mark.parametrize("anchor", ["module", "list", "method"])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, by_pickle])
def test_a_copy_is_independent(anchor: str, duplicate: Any) -> None:
    original = Algorithm(anchor)
    twin = duplicate(original)
    assert (twin.optimizer.c, twin.optimizer.distance()) == (0.4, original.optimizer.distance())
    assert twin.optimizer.param_groups is twin.optimizer.inner.param_groups

    before = original.learn(0)
    after = twin.learn(3)
    assert original.learn(0) == before, "the copy trains its own weights"
    assert original.learn(3) == after, "and goes the same way"

    nn.init.constant_(original.target.weight, 100.0)
    still = twin.optimizer.distance()
    nn.init.constant_(twin.target.weight, 100.0)
    assert twin.optimizer.distance() > still + 100.0, "pulled to its own target"


def test_a_function_as_anchor_cannot_be_copied() -> None:
    w = torch.ones(1, requires_grad=True)
    target = [torch.zeros(1)]
    optimizer = Proximal(torch.optim.SGD([w], lr=0.5), lambda: target, c=1.0)
    with pytest.raises(TypeError, match="be pulled to the original target"):
        copy.deepcopy(optimizer)
