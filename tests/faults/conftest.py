"""The bench of the kill matrix serves here too."""

from tests.kill.conftest import bench, database

__all__ = ["bench", "database"]
