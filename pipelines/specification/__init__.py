"""The specification: one strict TOML file, translated into the values that the other packages define."""

from pipelines.specification.errors import SpecificationError
from pipelines.specification.load import load
from pipelines.specification.values import AccountTerms, Specification

__all__ = ["AccountTerms", "Specification", "SpecificationError", "load"]
