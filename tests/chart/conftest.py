"""Both Helms that the chart is made for, and what they make of it."""

from __future__ import annotations

import pytest
from tests.chart.rendering import Helm, helm_at


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Helm 4."""
    return helm_at("helm")


@pytest.fixture(scope="session")
def helm3() -> Helm:
    """The oldest Helm that the chart is made for."""
    return helm_at("helm3")


@pytest.fixture(scope="session")
def render(helm):
    return helm.render
