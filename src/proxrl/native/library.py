"""Loading the compiled functions.

The C code is compiled when proxrl is installed, if there is a C compiler with Python's headers. It
needs a CPU with AVX2. Whether it was available to a run is in its `machine.jsonl`.
"""

import ctypes
import functools
import importlib.util

import torch

from proxrl.native.checks import is_right

# Empty for Python: their functions are called by address. Both give the same bits.
MODULES = {"AVX2": "proxrl.native._kernels", "AVX512": "proxrl.native._kernels_avx512"}

_ADDRESS, _SIZE, _FLAG = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_NUMBER = ctypes.c_float
ARGUMENTS = {
    "dense_forward": [*[_SIZE] * 3, *[_ADDRESS] * 3, _FLAG, _ADDRESS],
    "dense_backward": [*[_SIZE] * 3, *[_ADDRESS] * 3, _FLAG, *[_ADDRESS] * 5],
    "convolution_forward": [*[_SIZE] * 4, *[_ADDRESS] * 5],
    "convolution_backward": [*[_SIZE] * 4, *[_ADDRESS] * 6],
    "adam_step": [_SIZE, *[_ADDRESS] * 4, *[_NUMBER] * 6],
    "td_targets": [*[_SIZE] * 2, *[_ADDRESS] * 4],
    "td_loss": [*[_SIZE] * 2, *[_ADDRESS] * 3, _FLAG, *[_ADDRESS] * 2],
    "categorical_values": [*[_SIZE] * 2, *[_ADDRESS] * 4],
    "categorical_targets": [*[_SIZE] * 3, *[_ADDRESS] * 6],
    "categorical_loss": [*[_SIZE] * 3, *[_ADDRESS] * 6],
    "tree_set": [_SIZE, _ADDRESS, _SIZE, *[_ADDRESS] * 2],
    "tree_draw": [_SIZE, _ADDRESS, _SIZE, *[_ADDRESS] * 2],
    "read_transitions": [*[_SIZE] * 2, *[_ADDRESS] * 2, *[_SIZE] * 4, *[_ADDRESS] * 5],
}


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled functions; None if they were not built, cannot be loaded, or are wrong."""
    name = MODULES.get(torch.backends.cpu.get_cpu_capability())
    return None if name is None else loaded(name)


def loaded(name: str) -> ctypes.CDLL | None:
    """The functions of one of the modules."""
    module = importlib.util.find_spec(name)
    if module is None or module.origin is None:
        return None
    try:
        found = ctypes.CDLL(module.origin)
        for name, arguments in ARGUMENTS.items():
            getattr(found, name).argtypes = arguments
            getattr(found, name).restype = None
    except (OSError, AttributeError):
        return None
    return found if is_right(found) else None
