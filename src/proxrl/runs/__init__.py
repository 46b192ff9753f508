"""The record of a run on disk: the one reader and the one writer of a run folder (no torch)."""
