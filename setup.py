"""The C code of proxrl, compiled if there is a C compiler (agents/kernels.py says what it does)."""

import platform

from setuptools import Extension, setup

KERNELS = Extension(
    "proxrl.agents._kernels",
    ["src/proxrl/agents/kernels.c"],
    # The code has explicit vectors; GCC 12's own vectorizer miscompiles a masked sum.
    extra_compile_args=[
        "-std=gnu11",
        "-O3",
        "-mavx2",
        "-mfma",
        "-ffp-contract=fast",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fno-tree-vectorize",
        "-fno-tree-slp-vectorize",
    ],
    optional=True,
)

setup(ext_modules=[KERNELS] if platform.machine() in ("x86_64", "AMD64") else [])
