"""TensorFlow's SAME padding, used by the authors' networks (docs/fidelity.md).

The output has size ceil(size / stride) along each axis; the required zeros are split in halves,
with the odd one after the image.
"""

from torch import Tensor, nn
from torch.nn import functional


class SameConvolution(nn.Conv2d):
    """A convolution with SAME padding, [batch, channels, height, width]."""

    def forward(self, images: Tensor) -> Tensor:
        padded, padding = self.pad(images)
        return functional.conv2d(padded, self.weight, self.bias, self.stride, padding)

    def pad(self, images: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """The input and `padding` argument of the convolution: it can add symmetric padding itself,
        asymmetric padding (if the stride does not divide the size) needs a copy."""
        top, bottom, left, right = self.zeros(images)
        if (top, left) == (bottom, right):
            return images, (top, left)
        return functional.pad(images, (left, right, top, bottom)), (0, 0)

    def zeros(self, images: Tensor) -> tuple[int, int, int, int]:
        """Padding above, below, left and right of these images."""
        height, width = images.shape[2:]
        return (
            *same_padding(height, self.kernel_size[0], self.stride[0]),
            *same_padding(width, self.kernel_size[1], self.stride[1]),
        )


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Zeros before and after an axis, as TensorFlow's SAME: 84, 8, 4 is (2, 2); 21, 4, 2 (1, 2)."""
    places = -(-size // stride)
    zeros = max(0, (places - 1) * stride + kernel - size)
    return zeros // 2, zeros - zeros // 2
