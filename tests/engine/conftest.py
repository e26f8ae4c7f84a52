from tests.requests.conftest import here, local

__all__ = ["here", "local"]
