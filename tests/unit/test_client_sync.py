"""The calls that wait are the asynchronous ones, all of them, and say the same."""

from __future__ import annotations

import inspect

import pytest

from anabranch.client import AnabranchClient
from anabranch.client.sync import SyncClient, SyncWorker
from anabranch.client.transport import Transport
from anabranch.client.worker import Worker

LEFT_OUT = {"close", "open", "running"}
"""What the context managers do."""


def calls(kind, *, but=()):
    """The public asynchronous calls of a class."""
    return {
        name: method
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
        and name not in LEFT_OUT
        and name not in {one for base in but for one in vars(base)}
        and (inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method))
    }


@pytest.mark.parametrize(
    ("asynchronous", "waiting"), [(calls(AnabranchClient, but=[Transport]), SyncClient), (calls(Worker), SyncWorker)]
)
def test_every_asynchronous_call_has_a_twin_that_waits(asynchronous, waiting):
    missing = asynchronous.keys() - vars(waiting).keys()
    assert not missing, f"add {', '.join(sorted(missing))} to {waiting.__name__}"
    for name, method in asynchronous.items():
        twin = getattr(waiting, name)
        assert inspect.signature(twin) == inspect.signature(method)
        assert twin.__doc__ == method.__doc__
        assert inspect.isgeneratorfunction(twin) is inspect.isasyncgenfunction(method), name
