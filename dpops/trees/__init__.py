"""Noisy distributions over public bins: trees and their readings."""
