"""Many runs: which ones, and where they run."""
