"""The road as one PTransform, for pipelines of others."""
