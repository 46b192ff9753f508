"""Adam (Kingma & Ba 2015) on the vector of all weights: one call of torch's fused kernel, or of the
compiled one (`native/update.c`), which takes less time on one core and gives the same bits.

Bit-identical to `torch.optim.Adam(fused=True)` on the same vector, without the overhead of an
optimizer object per step.
"""

import math

import torch
from torch import Tensor

from proxrl.agents.weights import Layout, gradient_of
from proxrl.native import functions, library

BETA_1, BETA_2 = 0.9, 0.999
FLUSH_PERIOD = 256  # updates
TINY_MEAN, TINY_SQUARE = 1e-30, 1e-37  # float32 is subnormal below 1.2e-38


class Adam:
    """The moments of the gradient and the update step."""

    def __init__(self, layout: Layout, epsilon: float) -> None:
        self._layout = layout
        self.betas = (BETA_1, BETA_2)
        self._epsilon = epsilon
        self.mean = layout.zeros()  # running average of the gradient
        self.square = layout.zeros()  # and of its square
        self.steps = [torch.zeros((), device=layout.device) for _ in self.mean]
        self._ones = [torch.ones_like(steps) for steps in self.steps]
        here = layout.device.type == "cpu" and layout.dtypes == [torch.float32]
        self._is_compiled = here and torch.get_num_threads() == 1 and library() is not None

    @torch.no_grad()
    def step(self, weights: list[Tensor], learning_rate: float) -> None:
        """w <- w - alpha mean / (sqrt(square) + epsilon), with bias-corrected moments."""
        if self._is_compiled:
            self._compiled_step(weights[0], learning_rate)
            return
        torch._foreach_add_(self.steps, self._ones)
        torch._fused_adam_(
            weights,
            [gradient_of(weight) for weight in weights],
            self.mean,
            self.square,
            [],
            self.steps,
            lr=learning_rate,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=0.0,
            eps=self._epsilon,
            amsgrad=False,
            maximize=False,
        )

    def _compiled_step(self, weights: Tensor, learning_rate: float) -> None:
        """The same on one core, with the same bits."""
        count = self.steps[0].numpy()
        count += 1
        steps = float(count)
        beta_1, beta_2 = self.betas
        functions().adam_step(
            weights.numel(),
            weights.data_ptr(),
            gradient_of(weights).data_ptr(),
            self.mean[0].data_ptr(),
            self.square[0].data_ptr(),
            1.0 - beta_1,
            beta_2,
            1.0 - beta_2,
            learning_rate / (1.0 - beta_1**steps),
            math.sqrt(1.0 - beta_2**steps),
            self._epsilon,
        )

    @torch.no_grad()
    def flush(self) -> None:
        """Set moments to zero that are too small to change a float32 weight (above 1e-22 or so).

        Where the gradient stays zero (a pixel that never changes, a unit that never fires), moments
        decay to subnormal numbers, and arithmetic with those is many times slower on some CPUs.
        """
        for mean, square in zip(self.mean, self.square, strict=True):
            torch.ops.aten.hardshrink.out(mean, TINY_MEAN, out=mean)
            torch.ops.aten.hardshrink.out(square, TINY_SQUARE, out=square)

    def views(self, vectors: list[Tensor]) -> dict[str, Tensor]:
        """Each parameter's part of vectors like the weights or the moments, by its name."""
        return self._layout.views(vectors)

    def state(self) -> dict[str, Tensor]:
        """The moments by parameter name, and the number of steps."""
        moments = {f"{name}.mean": view for name, view in self._layout.views(self.mean).items()}
        moments |= {
            f"{name}.square": view for name, view in self._layout.views(self.square).items()
        }
        return {**moments, "steps": self.steps[0]}

    def load(self, state: dict[str, Tensor]) -> None:
        """Restore `state`."""
        for name, tensor in self.state().items():
            if name != "steps":
                tensor.copy_(state[name])
        # proxrl 0.1 counted the steps of each parameter; unused ones stayed at 0.
        counts = [count for name, count in state.items() if name.endswith(("steps", ".step"))]
        for steps in self.steps:
            steps.copy_(torch.stack(counts).max())
