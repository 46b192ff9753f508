"""The network of proxrl's MinAtar presets as a Stable-Baselines3 features extractor."""

import gymnasium
import torch
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor


class MinAtarCNN(BaseFeaturesExtractor):
    """The network of the preset: 16 channels 3 x 3, then 128 units."""

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        super().__init__(space, features_dim=128)
        height, width, channels = space.shape  # too small for SB3 to take it for an image
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(channels, 16, 3),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(16 * (height - 2) * (width - 2), 128),
            torch.nn.ReLU(),
        )

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.layers(states.permute(0, 3, 1, 2))  # type: ignore[no-any-return]
