"""Requests and answers: bodies, problems, pages, streams, repeated requests."""
