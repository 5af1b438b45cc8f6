"""Local privacy: values perturbed at their owner, once for each of several services, and what their reports tell."""
