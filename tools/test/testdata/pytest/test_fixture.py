import pytest


def test_passes():
    assert True


def test_fails():
    assert 1 == 2


@pytest.mark.skip
def test_is_skipped():
    pass
