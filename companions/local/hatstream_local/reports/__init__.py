"""Reports that were perturbed on the vehicle for several services: made, checked, joined per user, fused."""
