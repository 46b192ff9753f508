"""The C code of proxrl, compiled if there is a C compiler (agents/kernels.py says what it does)."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "proxrl.agents._kernels",
            ["src/proxrl/agents/kernels.c"],
            # The code has explicit vectors; GCC 12's own vectorizer miscompiles a masked sum.
            extra_compile_args=[
                "-std=gnu11",
                "-O3",
                "-ffp-contract=fast",
                "-fno-math-errno",
                "-fno-trapping-math",
                "-fno-tree-vectorize",
                "-fno-tree-slp-vectorize",
                "-Wno-psabi",
            ],
            optional=True,
        )
    ]
)
