"""TensorBoard events of a run: metrics.jsonl, episodes, speed, single updates, hyper-parameters.

The x axis is agent steps. Events repeat what the run computes anyway and change nothing in it.
After a resume, TensorBoard drops the points of the killed process (`purge_step`).
"""

from pathlib import Path
from typing import Any

from proxrl.config import RunConfig, flatten


class TensorBoard:
    """Writes events; does nothing if `logging.tensorboard` is off."""

    def __init__(self, folder: Path, config: RunConfig, step: int) -> None:
        self.update_period = config.logging.tensorboard_updates if config.logging.tensorboard else 0
        self._writer: Any = None
        if config.logging.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
            self._add_hyper_parameters(config)

    def add(self, values: dict[str, Any], step: int) -> None:
        """The numbers among these values."""
        if self._writer is None:
            return
        for name, value in values.items():
            if isinstance(value, int | float) and name != "step":
                self._writer.add_scalar(name, value, step)

    def flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _add_hyper_parameters(self, config: RunConfig) -> None:
        """The run's settings for the HParams plugin, with the mean return as its metric."""
        from torch.utils.tensorboard.summary import hparams

        settings = {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in {**flatten(config), "c": config.c}.items()
            if not name.startswith("logging.")
        }
        for summary in hparams(settings, {"eval/mean_return": 0.0}):  # type: ignore[no-untyped-call]
            self._writer.file_writer.add_summary(summary)
