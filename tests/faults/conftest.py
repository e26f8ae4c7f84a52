"""The bench of the kill matrix serves here too."""

from tests.kill.conftest import bench, database, nursery

__all__ = ["bench", "database", "nursery"]
