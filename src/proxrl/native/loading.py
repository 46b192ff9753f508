"""Loading the compiled functions.

The C code is compiled when proxrl is installed, if there is a C compiler with Python's headers. It
needs a CPU with AVX2. Whether it was available to a run is in its `machine.jsonl`.
"""

import ctypes
import functools
import importlib.util

import torch

from proxrl.native.checks import is_right

# Empty for Python: their functions are called by address. All give the same bits.
AVX2, AVX512 = "proxrl.native._kernels", "proxrl.native._kernels_avx512"
MODULES = {"AVX2": [AVX2], "AVX512": [AVX512, AVX2]}  # by what PyTorch sees of the CPU

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
    modules = MODULES.get(torch.backends.cpu.get_cpu_capability(), [])
    return next((found for module in modules if (found := loaded(module)) is not None), None)


def functions() -> ctypes.CDLL:
    """The library, where it is known to be there. Objects that can be copied or pickled do not keep
    it, because a CDLL cannot be."""
    found = library()
    assert found is not None
    return found


def loaded(module: str) -> ctypes.CDLL | None:
    """The functions of one of the modules."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return None
    try:
        found = ctypes.CDLL(spec.origin)
        for name, arguments in ARGUMENTS.items():
            getattr(found, name).argtypes = arguments
            getattr(found, name).restype = None
    except (OSError, AttributeError):
        return None
    return found if is_right(found) else None
