"""What the tests of commands share."""

import pytest


@pytest.fixture(scope="session")
def pathveil(pathveil, inside):
    """Commands run in this process, unless they are to have another environment or folder."""
    return lambda *arguments, **options: pathveil(*arguments, **options) if options else inside(*arguments)
