"""The specification: one strict TOML file, translated into the values that the other packages define."""

from pipelines.specification.document import AccountTable, SpecificationError
from pipelines.specification.load import load
from pipelines.specification.values import Specification

__all__ = ["AccountTable", "Specification", "SpecificationError", "load"]
