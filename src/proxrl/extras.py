"""Optional dependencies. `Proximal` needs torch and NumPy; everything else is in extras.

| extra  | for                                                   |
|--------|-------------------------------------------------------|
| train  | the command line, training, evaluation, videos        |
| atari  | `train` and the Atari games                           |
| report | `train`, reports and studies, tabular planning        |

`minatar`, `ray`, `wandb`, `sb3` and `tianshou` are checked where they are used.
"""

import importlib.util

from proxrl.errors import UserError

MODULES = {  # extra -> the modules that it brings; `pyproject.toml` has the versions
    "train": (
        "cv2",
        "gymnasium",
        "imageio",
        "msgspec",
        "psutil",
        "rich",
        "safetensors",
        "tensorboard",
        "threadpoolctl",
        "tyro",
    ),
    "atari": ("ale_py",),
    "report": ("jinja2", "markupsafe", "matplotlib", "scipy"),
}


class MissingExtra(UserError, ImportError):
    """An optional dependency is not installed; the message names its extra."""


def require(extra: str, what: str) -> None:
    """Raise `MissingExtra` if a module of this extra cannot be found; `what` needs it."""
    for module in MODULES[extra]:
        if importlib.util.find_spec(module) is None:
            raise _missing(extra, what, module)


def explain(error: ModuleNotFoundError, what: str) -> ImportError:
    """The error to raise for a failed import: `MissingExtra` if the module is in an extra."""
    name = (error.name or "").split(".")[0]
    for extra, modules in MODULES.items():
        if name in modules:
            return _missing(extra, what, name)
    return error


def _missing(extra: str, what: str, module: str) -> MissingExtra:
    return MissingExtra(f"{what} needs {module}: pip install 'proxrl[{extra}]'")
