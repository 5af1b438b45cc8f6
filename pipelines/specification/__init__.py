"""Specification: a strict TOML file, checked and translated."""

from pipelines.errors import SpecificationError
from pipelines.specification.load import load
from pipelines.specification.values import AccountTerms, Specification

__all__ = ["AccountTerms", "Specification", "SpecificationError", "load"]
