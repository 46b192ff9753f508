"""Runs: how they go (loop), what they leave (checkpoint, metrics)."""
