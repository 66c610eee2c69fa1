"""What all Python tests share."""

import pytest

import mixle_testing


def pytest_report_header(config):
    return f"mixle tools: {mixle_testing.BIN}"


def pytest_sessionstart(session):
    for name in ("mixle-compile", "mixle-run"):
        if not mixle_testing.tool(name).exists():
            pytest.exit(
                f"{mixle_testing.tool(name)} does not exist: build the tools, or set "
                "MIXLE_BIN to the folder that holds them",
                returncode=4,
            )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of the test module's own."""
    return tmp_path_factory.mktemp("mixle")
