"""Local privacy: values perturbed by owners, and fused."""
