"""A network as a file that other programs can run: ONNX, torch.export or TorchScript."""

import importlib.util
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from proxrl.agents.networks import QNetwork
from proxrl.errors import UserError
from proxrl.types import ObservationSpec

FORMATS = (".onnx", ".pt2", ".pt")


def export_network(network: QNetwork, spec: ObservationSpec, path: Path) -> None:
    """Write the function from states [batch, stack, *shape] to action values."""
    if path.suffix not in FORMATS:
        raise UserError(f"invalid export file {path}: must end in {', '.join(FORMATS)}")
    if path.suffix == ".onnx" and importlib.util.find_spec("onnxscript") is None:
        raise UserError("exporting to ONNX needs a package: pip install 'proxrl[onnx]'")
    plain = network.recorded().cpu().eval()
    example = torch.zeros((2, *spec.state_shape), dtype=getattr(torch, str(spec.dtype)))
    with torch.no_grad(), _quietly():
        try:
            if path.suffix == ".pt":
                torch.jit.save(torch.jit.trace(plain, example), str(path))  # type: ignore[no-untyped-call]
                return
            batch = torch.export.Dim("batch", min=1)
            program = torch.export.export(plain, (example,), dynamic_shapes=({0: batch},))
            if path.suffix == ".pt2":
                torch.export.save(program, path)
            else:
                torch.onnx.export(
                    program,
                    (),
                    str(path),
                    input_names=["states"],
                    output_names=["q_values"],
                    dynamo=True,
                    external_data=False,
                    verbose=False,
                )
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror or error}") from None


@contextmanager
def _quietly() -> Iterator[None]:
    """Without torch's deprecations, and its lines on torchvision, which is not used."""
    log = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
