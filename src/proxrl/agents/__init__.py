"""Networks, losses, the learner and the policy."""
