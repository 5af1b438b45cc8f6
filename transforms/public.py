"""Types of output: public facts, and operators' values.

Sinks and public summaries take `Fact`s. A value that depends on who reported, or on whether an input changed, is an
`Operator`: without text or JSON, so that nothing prints it, and opened only for the operator or where the adjacency
makes it public.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

T_co = TypeVar("T_co", covariant=True)

Fact = None | bool | int | float | str | datetime | Sequence["Fact"] | Mapping[str, "Fact"]
"""A public value: made of recorded releases, their public plans and the specification, and of nothing else."""


if TYPE_CHECKING:

    class EntryNumber:
        """Sequence number of a ledger entry; not a `Fact`.

        0 stands for no entry. A stage's ordinal in its specification is public, see `recorded.units.counted`.
        """

        def __init__(self, number: int, /) -> None: ...
        def __int__(self) -> int: ...
        def __lt__(self, entry: "EntryNumber | int", /) -> bool: ...
        def __le__(self, entry: "EntryNumber | int", /) -> bool: ...
        def __gt__(self, entry: "EntryNumber | int", /) -> bool: ...

else:
    EntryNumber = int


class Operator(Generic[T_co]):
    """Value for the operator, which printing does not reveal."""

    __slots__ = ("_value",)

    def __init__(self, value: T_co) -> None:
        self._value = value

    def opened(self) -> T_co:
        """Returns the value, where operators may read it."""
        return self._value

    def __repr__(self) -> str:
        return "<for the operator alone>"


class Summary(NamedTuple):
    """Result of a run: public part and operator's part."""

    public: Mapping[str, Fact]
    operator_only: Operator[Mapping[str, Fact]] | None = None

    def plain(self) -> dict[str, Any]:
        """Returns one document, the operator's part under `operator_only`."""
        operator_part = {} if self.operator_only is None else {"operator_only": self.operator_only.opened()}
        return {**self.public, **operator_part}

    def whole(self) -> Operator[Mapping[str, Fact]]:
        """Merges both parts into one for the operator."""
        return Operator({**self.public, **({} if self.operator_only is None else self.operator_only.opened())})

    def json(self) -> str:
        """Encodes the summary as JSON."""
        return msgspec.json.encode(self.plain()).decode()
