"""What makes tests quick and repeatable: libraries remember, no disk is waited for, noise is the same in each run."""

import bz2
import copy
import functools
import hashlib
import os
import pickle
import shutil
import sys
import tempfile
import zlib
from argparse import Namespace
from collections.abc import Callable
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import sqlalchemy as sa

from dpops import fitted
from dpops.noise.words import Words

# noise


def let_noise_repeat(name: str) -> None:
    """Noise that is drawn in this process until the next call follows from the name."""
    Words.__init__.__defaults__ = (np.random.default_rng(zlib.crc32(name.encode())).bytes,)


def let_noise_be_fresh() -> None:
    """Noise is the operating system's, as it is outside of tests."""
    Words.__init__.__defaults__ = (os.urandom,)


# disks


def let_disks_be_quick() -> None:
    """Lets nobody wait for a disk: tests kill processes, never the machine, so what was written is there anyway.

    That the product waits is shown by tests/transforms/: sinks/test_files.py and ledger/test_ledger.py.
    """
    os.fsync = lambda _file: None
    sa.event.listen(sa.Engine, "connect", _not_waiting)


def _not_waiting(connection: Any, _record: object) -> None:
    if type(connection).__module__ == "sqlite3":
        connection.execute("PRAGMA synchronous = OFF")


IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
ROOM = 4 << 30
"""Bytes that must be free in memory's folder: a run of all tests writes a tenth of it; a container may have 64 MB."""


def let_files_be_in_memory() -> str | None:
    """Lets a new folder, where files take the least system time, be that of tests and of processes that they start."""
    if IN_MEMORY and "TMPDIR" not in os.environ and shutil.disk_usage(IN_MEMORY).free > ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="t-", dir=IN_MEMORY)  # short: sockets' names
        os.chmod(tempfile.tempdir, 0o1777)  # as /tmp: PostgreSQL runs as another user
        return tempfile.tempdir
    return None


# learned models


def let_models_be_remembered() -> None:
    """Fits of the same state, by the same fitted numbers, are made once: half of what releases by levels cost.

    So are ranks of recipes, for which each reading of a specification asks.
    """
    states, strategy = map(sys.modules.get, ("transforms.releases.periods.states", "dpops.levels.strategy"))
    if states and not hasattr(states.learned, "__wrapped__"):
        states.learned = _once_for_the_same(states.learned, _parts_of)
    if strategy and not hasattr(strategy.ranked, "__wrapped__"):
        strategy.ranked = _once_for_the_same(strategy.ranked, lambda *arguments: arguments)


def _parts_of(state: Any) -> tuple[Any, ...]:
    return state.design, state.facts, state.days, state.older, state.recent, state.least_recent, state.start


def _once_for_the_same(compute: Callable[..., Any], parts_of: Callable[..., Any]) -> Any:
    results: dict[bytes, Any] = {}

    @functools.wraps(compute)
    def computed(*arguments: Any) -> Any:
        numbers = {name: value for name, value in vars(fitted).items() if name.isupper()}
        key = hashlib.sha256(pickle.dumps((numbers, parts_of(*arguments)))).digest()
        if key not in results:
            results[key] = compute(*arguments)
        return results[key]

    return computed


# Beam and SQLAlchemy


def let_beam_remember(*, starts_workers: bool = False) -> None:
    """Lets Beam, where it is imported, remember what it asks of the same classes for every pipeline.

    Signatures, hints and warnings of functions, parsed options and specs of state depend on the function, on the class
    and the flags, and on the class of the DoFn and methods it was given, alone; the type of dicts on their names and
    the types of values. Nobody works in IPython. Code is pickled quickly, where no worker that is started reads it as
    Beam writes it.
    """
    if "apache_beam" not in sys.modules:
        return
    from apache_beam.internal import cloudpickle_pickler
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.transforms import core, userstate
    from apache_beam.typehints.decorators import IOTypeHints
    from apache_beam.utils import interactive_utils

    if not hasattr(core.get_function_args_defaults, "__wrapped__"):
        core.get_function_args_defaults = _once_a_function(
            core.get_function_args_defaults, lambda both: tuple(map(list, both))
        )
        core._check_fn_use_yield_and_return = _once_a_function(core._check_fn_use_yield_and_return)
        IOTypeHints.from_callable = _once_a_function(IOTypeHints.from_callable)
        interactive_utils.is_in_ipython = lambda: False
        PipelineOptions._visible_option_list = lambda options: sorted(vars(options._visible_options))
        userstate.get_dofn_specs = _once_a_kind_of_dofn(userstate.get_dofn_specs)
        PipelineOptions.view_as = _once_a_class(PipelineOptions.view_as)
        core.Create.infer_output_type = _once_a_kind_of_dict(core.Create.infer_output_type)
    cloudpickle_pickler.bz2 = bz2 if starts_workers else SimpleNamespace(compress=_packed, decompress=zlib.decompress)


def _once_a_function(ask: Callable[[Any], Any], copied: Callable[[Any], Any] = lambda answer: answer) -> Any:
    """copied: of an answer that may be changed."""
    cached: dict[bool, WeakKeyDictionary[Any, Any]] = {True: WeakKeyDictionary(), False: WeakKeyDictionary()}

    @functools.wraps(ask)
    def asked(f: Any) -> Any:
        if not isinstance(f, MethodType | FunctionType):
            return ask(f)
        answers, function = cached[isinstance(f, MethodType)], getattr(f, "__func__", f)
        if function not in answers:
            answers[function] = ask(f)
        return copied(answers[function])

    return asked


def _packed(data: bytes, compresslevel: int) -> bytes:
    return zlib.compress(data, min(compresslevel, 1))


def _once_a_kind_of_dict(infer: Callable[[Any, Any], Any]) -> Any:
    def inferred(self: Any, nothing: Any) -> Any:
        if not all(type(value) is dict for value in self.values):
            return infer(self, nothing)
        kinds = {tuple((name, type(part)) for name, part in value.items()): value for value in self.values}
        return infer(SimpleNamespace(values=list(kinds.values())), nothing)

    return inferred


def _once_a_kind_of_dofn(ask: Callable[[Any], tuple[set[Any], set[Any]]]) -> Any:
    cached: WeakKeyDictionary[type, dict[frozenset[Any], tuple[set[Any], set[Any]]]] = WeakKeyDictionary()

    @functools.wraps(ask)
    def specs(dofn: Any) -> tuple[set[Any], set[Any]]:
        attributes = getattr(dofn, "__dict__", {}).items()
        methods = frozenset((name, value.__func__) for name, value in attributes if isinstance(value, MethodType))
        of_class = cached.setdefault(type(dofn), {})
        if methods not in of_class:
            of_class[methods] = ask(dofn)
        states, timers = of_class[methods]
        return set(states), set(timers)

    return specs


JOB_NAME = "--job_name="


def _once_a_class(view_as: Callable[[Any, type], Any]) -> Any:
    cached: dict[tuple[type, tuple[str, ...]], dict[str, Any]] = {}

    @functools.wraps(view_as)
    def viewed(self: Any, cls: type) -> Any:
        if self._flags is None:  # then it is for the arguments of this process to say
            return view_as(self, cls)
        names = [flag for flag in self._flags if flag.startswith(JOB_NAME)]  # each job has its own
        key = cls, tuple(flag for flag in self._flags if flag not in names)
        if key not in cached:
            cached[key] = vars(cls(list(key[1]))._visible_options)
        view = cls.__new__(cls)
        visible = copy.deepcopy(cached[key])
        if names and "job_name" in visible:
            visible["job_name"] = names[-1].removeprefix(JOB_NAME)
        for name, value in visible.items():
            self._all_options.setdefault(name, value)
        view.__dict__.update(_flags=self._flags, _visible_options=Namespace(**visible), _all_options=self._all_options)
        return view

    return viewed


_create_engine = sa.create_engine


class _Compiled(dict[Any, Any]):
    """SQLAlchemy asks by the engine's dialect and what makes the statement."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get((type(key[0]), *key[1:]), default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        super().__setitem__((type(key[0]), *key[1:]), compiled)


_COMPILED = _Compiled()


def let_ledgers_remember() -> None:
    """What SQLAlchemy compiles depends on the kind of database alone, but it remembers that for each engine."""
    sa.create_engine = _remembering


def _remembering(url: Any, *, execution_options: dict[str, Any] | None = None, **options: Any) -> sa.Engine:
    return _create_engine(url, execution_options={**(execution_options or {}), "compiled_cache": _COMPILED}, **options)
