"""CLIP-USER: which vehicles leave which HATs, its search, and the worst-case errors it weighs."""

from dpops.suppression.clip_user import Clipped, Weights, clip_user

__all__ = [
    "Clipped",
    "Weights",
    "clip_user",
]
