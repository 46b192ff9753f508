"""Run folders: the only code that reads and writes them (no torch)."""
