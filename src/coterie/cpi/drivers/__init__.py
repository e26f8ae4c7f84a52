"""Drivers, one folder each, found by entry point. Nothing outside a folder imports it by name."""
