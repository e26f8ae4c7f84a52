"""Credentials of clouds, sealed so that only a cloud's conductors can open them: keys, sealed texts, whole configs.

Nothing here knows a database, HTTP or a driver. The cryptography (libsodium) is imported when something is sealed.
"""
