"""Local privacy: values perturbed at their owner, once for each of several services, and the fusion of these reports."""
