"""Layouts that misbehave, for tests of the decoder's process, which finds this module as they do."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from transforms.layouts import Units
from transforms.layouts.base import FIELDS, RawBatch, raw_batch
from transforms.layouts.decoder_process import MEMORY_BYTES, read_apart


def told(layout):
    (batch,) = read_apart(layout, ".")
    return batch.table.column("vehicle")[0].as_py()


def pid_of_decoder():
    return int(told(Pid()))


def saying(text, rows=1) -> RawBatch:
    return raw_batch({name: pa.array([text] * rows) for name in FIELDS}, {})


@dataclass(frozen=True)
class Pid:
    units = Units("iso", Fraction(1))

    def read(self, _path) -> Iterator[RawBatch]:
        yield saying(str(os.getpid()))


class Environment(Pid):
    def read(self, _path):
        yield saying(str(os.environ))


class Greedy(Pid):
    def read(self, _path):
        yield saying(str(len(bytearray(MEMORY_BYTES))))


class Suicidal(Pid):
    def read(self, _path):
        os.kill(os.getpid(), 9)
        time.sleep(60)
        yield saying("")


class Fragile(Pid):
    def from_messages(self, payloads):
        for payload in payloads:
            if payload == b"crash":
                os.kill(os.getpid(), 9)
            while payload == b"hang":
                pass
            yield saying(payload.decode())


class Wide(Pid):
    def read(self, _path):
        narrow, wide = saying("", 300).table, pa.repeat("x" * 1_000_000, 300)
        yield RawBatch(300, narrow.set_column(0, "vehicle", wide), {})


class Long(Pid):
    def read(self, _path):
        for _ in range(100):
            yield saying("", 20_000)

    def from_messages(self, _payloads):
        yield from self.read("")
