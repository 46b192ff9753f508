"""What learns: networks, losses, the learner and the policy that acts on it."""
