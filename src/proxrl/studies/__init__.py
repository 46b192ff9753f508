"""Studies: sets of runs as data, and the executors that run them."""
