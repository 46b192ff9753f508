"""The C code of proxrl (`native/`), compiled if there is a C compiler."""

import platform

from setuptools import Extension, setup

# The code has explicit vectors; GCC 12's own vectorizer miscompiles a masked sum.
FLAGS = [
    "-std=gnu11",
    "-O3",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-tree-vectorize",
    "-fno-tree-slp-vectorize",
]
INSTRUCTIONS = {
    "_kernels": ["-mavx2", "-mfma"],
    "_kernels_avx512": ["-mavx2", "-mfma", "-mavx512f", "-mavx512dq", "-mavx512vl"],
}


def kernels(name: str) -> Extension:
    """The same source for one kind of CPU; `native/loading.py` selects."""
    return Extension(
        f"proxrl.native.{name}",
        [f"src/proxrl/native/{part}.c" for part in ("layers", "update", "replay", "module")],
        depends=["src/proxrl/native/vectors.h"],
        define_macros=[("MODULE", name)],
        extra_compile_args=[*FLAGS, *INSTRUCTIONS[name]],
        optional=True,
    )


on_x86 = platform.machine() in ("x86_64", "AMD64")
setup(ext_modules=[kernels(name) for name in INSTRUCTIONS] if on_x86 else [])
