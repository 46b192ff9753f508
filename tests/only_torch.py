"""`python -m tests.only_torch`: `Proximal` where only torch and NumPy are installed.

Forgets every module of proxrl and of other packages (torch's own dependencies excepted), makes them
unavailable, and uses the drop-in. Prints the message of each other name of `proxrl`.
"""

import importlib
import sys
from importlib.abc import MetaPathFinder
from importlib.metadata import packages_distributions
from typing import Any

ALLOWED = {
    *("torch", "torchgen", "functorch", "numpy"),
    # torch's own dependencies, which it imports when it needs them
    *("filelock", "fsspec", "jinja2", "markupsafe", "mpmath", "networkx", "sympy", "setuptools"),
    *("typing_extensions", "proxrl", "tests"),
}
BLOCKED = {*packages_distributions(), "cv2", "tyro"} - ALLOWED - sys.stdlib_module_names


class WithoutBlocked(MetaPathFinder):
    """A finder that finds no blocked module, as if they were not installed."""

    def __init__(self, finder: Any) -> None:
        self._finder = finder

    def find_spec(self, name: str, *where: Any) -> Any:
        blocked = name.split(".")[0] in BLOCKED
        return None if blocked else self._finder.find_spec(name, *where)


def main() -> None:
    for name in list(sys.modules):
        if name.split(".")[0] in BLOCKED | {"proxrl"}:
            del sys.modules[name]
    sys.meta_path[:] = [WithoutBlocked(finder) for finder in sys.meta_path]

    import torch

    import proxrl
    from proxrl import Proximal

    online, target = torch.nn.Linear(2, 1, bias=False), torch.nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        online.weight.fill_(1.0)
        target.weight.zero_().requires_grad_(False)
    optimizer = Proximal(torch.optim.SGD(online.parameters(), 0.1), target, c=0.2)
    online(torch.zeros(1, 2)).sum().backward()
    optimizer.step()
    print(f"weights {online.weight.tolist()[0]}")  # (1 - 0.1/0.2) * 1
    for name in ("Agent", "train", "display_for_terminal"):
        try:
            getattr(proxrl, name)
        except ImportError as error:
            print(f"{name}: {error}")
    try:
        importlib.import_module("proxrl.__main__").main()
    except SystemExit as left:
        print(f"exit {left.code}")


if __name__ == "__main__":
    main()
