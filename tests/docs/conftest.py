"""A service for what documents show of programs that ask one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services import service_in_thread

ADDRESS = "127.0.0.1:8000"


@pytest.fixture(scope="module")
def here(tiny_run: Path) -> Iterator[Callable[[str], str]]:
    """What gives code of a document the address of a service."""

    def with_address(code: str) -> str:
        assert ADDRESS in code
        return code.replace(ADDRESS, f"127.0.0.1:{port}")

    with service_in_thread([tiny_run]) as (port, _):
        yield with_address
