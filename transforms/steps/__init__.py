"""The road's PTransforms: each is wiring around a pure function, and what crosses between them is typed."""
