"""Networks from states [batch, stack, *observation] to action values [batch, actions].

A network function creates the *body* (`agents/bodies.py`), which maps states to numbers; `QNetwork`
interprets them as action values or as distributions of returns. Dueling and noisy layers work with
any body. Initial weights are drawn from the seed of the run.
"""

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from proxrl.agents.bodies import function_of, minatar, mlp, nature, nature_same
from proxrl.agents.chain import Backward, Recorded
from proxrl.agents.heads import make_head
from proxrl.agents.noisy import make_noisy, noisy_layers
from proxrl.agents.purity import require_function
from proxrl.config import HeadConfig, NetworkConfig
from proxrl.errors import UserError, what_raised
from proxrl.plugins import imported, unknown
from proxrl.types import Array, ArrayFunction, ObservationSpec

NetworkFunction = Callable[[ObservationSpec, int, tuple[int, ...]], nn.Module]
EXPECTED = HeadConfig()


class QNetwork(nn.Module):
    """A body with an expected or categorical head, optionally dueling."""

    def __init__(self, body: nn.Module, actions: int, head: HeadConfig, dueling: bool) -> None:
        super().__init__()
        self.body = body
        self.head = make_head(head)
        self._rows = actions + int(dueling)
        self._dueling = dueling
        self._function = function_of(body)

    @staticmethod
    def body_outputs(actions: int, head: HeadConfig, dueling: bool) -> int:
        """Required number of body outputs per state."""
        return (actions + int(dueling)) * make_head(head).size

    def forward(self, states: Tensor) -> Tensor:
        """Action values Q(s, .), [batch, actions]."""
        return self.head.values(self.outputs(states))

    def outputs(self, states: Tensor) -> Tensor:
        """Action values [batch, actions], or logits [batch, actions, atoms]."""
        return self._combine(self._function.forward(states))

    def with_backward(self, states: Tensor) -> tuple[Tensor, Backward]:
        """The outputs, and their backward function (`agents/chain.py`)."""
        numbers, body_backward = self._function.with_backward(states)

        def backward(gradient: Tensor) -> None:
            if self._dueling:  # the transpose of V + A - mean A
                to_value = gradient.sum(dim=1, keepdim=True)
                to_advantages = gradient - gradient.mean(dim=1, keepdim=True)
                gradient = torch.cat([to_value, to_advantages], dim=1)
            body_backward(gradient.flatten(1))

        return self._combine(numbers), backward

    def recorded(self) -> "QNetwork":
        """A copy whose body is called as a module: a chain's operations depend on the batch size,
        so that a graph of them would fit one size only."""
        network = copy.deepcopy(self)
        network._function = Recorded(network.body)
        return network

    def of_state(self) -> ArrayFunction:
        """A function from one state [stack, *observation] to its action values [actions], for
        acting: without PyTorch if the body is small and on the CPU.

        It follows changes of the weights, but not their move to other memory.
        """
        device = next(self.parameters()).device
        body = self._function.of_state() if device.type == "cpu" else None
        if body is not None:
            return self._of_state(body)

        @torch.inference_mode()
        def values(state: Array) -> Array:
            found: Array = self(torch.from_numpy(state[None]).to(device))[0].cpu().numpy()
            return found

        return values

    def _of_state(self, body: ArrayFunction) -> ArrayFunction:
        """`forward` for one state, on arrays."""
        head, size, dueling = self.head.of_state(), self.head.size, self._dueling
        if size == 1 and not dueling:
            return body

        def values(state: Array) -> Array:
            rows = body(state).reshape(-1, size)
            if dueling:  # as in `_combine`
                rows = rows[:1] + rows[1:] - rows[1:].mean(axis=0)
            return head(rows)

        return values

    def _combine(self, numbers: Tensor) -> Tensor:
        """Body outputs [batch, rows x size] to outputs per action."""
        if self.head.size > 1:
            numbers = numbers.view(-1, self._rows, self.head.size)
        if self._dueling:  # the first row is V, the others are A: Q = V + A - mean A
            advantages = numbers[:, 1:]
            numbers = numbers[:, :1] + advantages - advantages.mean(dim=1, keepdim=True)
        return numbers


_registry: dict[str, NetworkFunction] = {
    "nature": nature,
    "nature-same": nature_same,
    "minatar": minatar,
    "mlp": mlp,
}


def register_network(name: str, function: NetworkFunction) -> None:
    """Register `function(observation_spec, outputs, hidden) -> nn.Module` for `network.kind`.

    `outputs` is the number of actions for plain DQN, more for a categorical or dueling head.
    Networks stay in evaluation mode, so that values depend on weights and state only: dropout is
    off and batch statistics are not updated.
    """
    _registry[name] = function


def build_network(
    spec: ObservationSpec,
    actions: int,
    config: NetworkConfig,
    seed: int,
    head: HeadConfig = EXPECTED,
) -> QNetwork:
    """Build the configured network; its weights depend only on `seed`."""
    function = _function(config.kind, spec)
    outputs = QNetwork.body_outputs(actions, head, config.dueling)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            body = function(spec, outputs, config.hidden)
            if not isinstance(body, nn.Module):
                raise UserError(
                    f"network {config.kind} returned {body!r:.40}, not a torch.nn.Module"
                )
            require_function(body.eval(), spec, outputs, config.kind)
            initialise(body, config.initial_weights, dense=not config.noisy)
        except UserError:
            raise
        except (Exception, SystemExit) as error:  # in the network's own code
            raise UserError(
                f"cannot build network {config.kind}: {what_raised('it', error)}"
            ) from error
    body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if config.noisy:
        body = make_noisy(body, config.noisy_sigma).eval()
        if not noisy_layers(body):
            raise UserError(f"network {config.kind} has no nn.Linear for network.noisy")
    return QNetwork(body, actions, head, config.dueling)


@torch.no_grad()
def initialise(network: nn.Module, how: str, dense: bool = True) -> None:
    """Reinitialize linear and convolutional layers: uniform weights, zero biases.

    The variance is 2 / (fan-in + fan-out) for `xavier` and 1 / (sqrt(3) fan-in) for `fan_in`;
    `torch` keeps PyTorch's initialization. So do dense layers that will be made noisy: uniform
    within 1/sqrt(inputs), as in Fortunato et al.
    """
    if how == "torch":
        return
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d) or (dense and isinstance(layer, nn.Linear)):
            pixels = math.prod(layer.weight.shape[2:])  # of a kernel
            fan_out, fan_in = (units * pixels for units in layer.weight.shape[:2])
            variance = 2.0 / (fan_in + fan_out) if how == "xavier" else 3.0**-0.5 / fan_in
            bound = math.sqrt(3.0 * variance)
            layer.weight.uniform_(-bound, bound)
            if layer.bias is not None:
                layer.bias.zero_()


def _function(kind: str, spec: ObservationSpec) -> NetworkFunction:
    if kind == "auto":
        side = min(spec.shape[:2]) if spec.is_image else 0
        kind = "mlp" if side < 3 else "minatar" if side < 36 else "nature"
    if kind in _registry:
        return _registry[kind]
    if ":" in kind:
        function: NetworkFunction = imported(kind, "network")
        return function
    raise unknown("network.kind", kind, ("auto", *_registry))
