"""Attacks, one file per actor: each test does what an attacker would, and expects to get nothing."""
