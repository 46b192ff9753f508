"""`python -m proxrl`: the same as `proxrl`.

`python -m` searches the current folder for modules first, so that a torch.py there would be run;
this takes it off the path before anything else is imported.
"""

import sys

if not sys.flags.safe_path:
    del sys.path[0]

from proxrl.cli import main

main()
