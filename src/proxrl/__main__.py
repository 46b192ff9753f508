"""The entry point of the command `proxrl` and of `python -m proxrl`.

`python -m` searches the current folder for modules first, so that a torch.py there would be run;
this takes it off the path before anything else is imported.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]

from proxrl.extras import MissingExtra, require


def main() -> None:
    """Run the command line; without its extra, print one line and exit with 2."""
    try:
        require("train", "the command line")
    except MissingExtra as error:
        print(f"proxrl: {error}", file=sys.stderr)
        sys.exit(2)
    from proxrl.cli import main

    main()


if __name__ == "__main__":
    main()
