"""The mechanisms, one file each, whose classes `dpops.registered` finds by their names."""

from pkgutil import iter_modules

__all__ = [module.name for module in iter_modules(__path__)]  # so that a new mechanism is one file
