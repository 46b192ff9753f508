"""Measurements, as ratios from one run: `make bench`, or `python -m benchmarks.NAME`."""
