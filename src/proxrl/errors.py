"""The one exception a user's mistake raises: one line, what is wrong and what would be right."""


class UserError(ValueError):
    """A mistake that the person at the keyboard can mend; the command line exits with 2."""


class RunFailed(RuntimeError):
    """A run that had to stop (a full disk, a diverged loss); its last checkpoint is intact."""
