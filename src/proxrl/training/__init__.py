"""Training: the loop, evaluations, checkpoints and metrics of a run."""
