"""Every dialect is declared once, and its name is a value of the option `dialects`."""

from typing import get_args

import pytest

from wicket_mcp.config.model.config import Config
from wicket_mcp.config.model.config import Dialect as Name
from wicket_mcp.dialects import factory
from wicket_mcp.errors import ConfigError


def test_the_configuration_takes_exactly_the_dialects_that_there_are() -> None:
    assert get_args(Name) == factory.NAMES


def test_each_dialect_says_how_it_is_used() -> None:
    guides = [factory.guide([name]) for name in factory.NAMES]
    assert all(guides)
    assert factory.guide(factory.NAMES) == " ".join(guides)


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=", ".join(factory.NAMES)):
        factory.menu(["klingon"], Config(), pytest.fail)
