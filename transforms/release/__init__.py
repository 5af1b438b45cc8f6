"""By hexagon: public plans, noisy integers, and what is recorded of them."""
