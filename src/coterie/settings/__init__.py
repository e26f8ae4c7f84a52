"""Settings of every program: flag > environment > file > default, and where each value came from.

Standard library only: the command line pays for this import on every call.
"""

from coterie.settings.known import Setting, all_settings
from coterie.settings.load import Found, Settings, config_file, load

__all__ = ["Found", "Setting", "Settings", "all_settings", "config_file", "load"]
