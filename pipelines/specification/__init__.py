"""The specification: one strict TOML file, translated into the values that the other packages define."""

from pipelines.specification.load import AccountTable, Specification, SpecificationError, load

__all__ = ["AccountTable", "Specification", "SpecificationError", "load"]
