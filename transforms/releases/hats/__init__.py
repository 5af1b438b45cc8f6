"""A release of each HAT: public plans, noisy integers, and estimates of them."""
