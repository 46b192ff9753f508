"""From run folders to figures; never needs a live process."""
