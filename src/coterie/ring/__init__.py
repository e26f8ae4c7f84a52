"""Rings: a group, a driver and a node's uuid give one conductor. Pure: no clock, no database, no network."""
