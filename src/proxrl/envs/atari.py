"""Atari 2600 on the raw Arcade Learning Environment, Dopamine's protocol (Machado et al. 2018).

Per agent step: `frame_skip` emulator frames, the maximum of the last two in grayscale, resized to
84 x 84 by area (`frame_size`, and in colour without `grayscale`). Sticky actions; no no-op starts,
no fire on reset, minimal action set. A lost life is terminal only with `life_loss_terminal`; it
then ends the frame skip, as the end of a game does.

An episode is a function of its seed and its actions. ALE applies its own random seed only when a
ROM is loaded (100 ms and more), so ALE's stickiness is 0 and the repeats are drawn here, one per
emulator frame, from the episode's generator. `reset_game` also draws from ALE's generator (observed
on Seaquest), so every episode restores the emulator state saved after the first reset.
"""

from typing import Any

import cv2
import gymnasium
import numpy as np
from ale_py import ALEInterface, LoggerMode, roms

from proxrl.config import ProtocolConfig
from proxrl.types import Array, End, ObservationSpec, TimeStep


def make(env: str, protocol: ProtocolConfig, pictures: bool) -> "Atari":
    """The suite's factory; rendering is always available."""
    return Atari(env, protocol)


class Atari:
    """One game."""

    def __init__(self, env: str, protocol: ProtocolConfig) -> None:
        game = gymnasium.spec(env).kwargs["game"]
        ALEInterface.setLoggerMode(LoggerMode.Error)
        cv2.setNumThreads(1)  # a screen is too small to parallelize
        self._ale = ALEInterface()
        self._ale.setFloat("repeat_action_probability", 0.0)
        self._ale.setInt("random_seed", 0)
        rom = roms.get_rom_path(game)
        assert rom is not None, f"ale_py has no ROM for {game}"
        self._ale.loadROM(rom)
        self._action_set = self._ale.getMinimalActionSet()
        self._protocol = protocol
        self._ale.reset_game()
        self._start = self._ale.cloneState(include_rng=True)
        gray = protocol.grayscale
        self._screen = self._ale.getScreenGrayscale if gray else self._ale.getScreenRGB
        self._first_screen = self._screen()
        self._screens = np.zeros((2, *self._first_screen.shape), np.uint8)
        self._generator = np.random.default_rng(0)
        self._previous = 0  # last executed action index; 0 is no-op
        self._lives = 0
        self.actions = len(self._action_set)
        self.first_action = 0
        self._size = (protocol.frame_size, protocol.frame_size)
        shape = self._size if gray else (*self._size, 3)
        self.raw_shape: tuple[int, ...] | None = shape  # as from `AtariPreprocessing`
        self.observation = ObservationSpec(shape, "uint8", protocol.stack, high=255.0)

    def reset(self, seed: np.random.SeedSequence) -> TimeStep:
        self._generator = np.random.default_rng(seed)
        self._previous = 0
        self._ale.reset_game()  # for rendering: restoring a state does not restore the screen
        self._ale.restoreState(self._start)
        self._lives = self._ale.lives()
        self._screens[0] = 0  # stays 0 without frame skipping
        self._screens[1] = self._first_screen
        return TimeStep(self._observation(), 0.0, End.NO, game_over=False)

    def step(self, action: int) -> TimeStep:
        skip = self._protocol.frame_skip
        repeats = self._generator.random(skip) < self._protocol.sticky_actions
        reward = 0.0
        game_over = life_lost = False
        for frame in range(skip):
            if not repeats[frame]:
                self._previous = action
            reward += self._ale.act(self._action_set[self._previous])
            game_over = self._ale.game_over()
            life_lost = self._protocol.life_loss_terminal and self._lost_life()
            if game_over or life_lost:
                break
            if frame >= skip - 2:
                self._screen(self._screens[frame - skip])
        end = End.TERMINATED if game_over or life_lost else End.NO
        return TimeStep(self._observation(), reward, end, game_over)

    def encode(self, raw: Any) -> Array:
        return np.asarray(raw, np.uint8)

    def render(self) -> Array:
        screen: Array = self._ale.getScreenRGB()
        return screen

    def close(self) -> None:
        pass

    def _lost_life(self) -> bool:
        """Whether a life was lost since the last call."""
        before, self._lives = self._lives, self._ale.lives()
        return self._lives < before

    def _observation(self) -> Array:
        screen = np.maximum(self._screens[0], self._screens[1])
        resized: Array = cv2.resize(screen, self._size, interpolation=cv2.INTER_AREA)
        return resized
