"""Runs: what they are (presets), how they go (loop), what they leave (checkpoint, metrics)."""
