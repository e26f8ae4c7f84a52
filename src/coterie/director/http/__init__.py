"""Requests and answers: bodies, problems, pages, streams, redaction, repeated requests."""
