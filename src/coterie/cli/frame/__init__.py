"""What every verb shares: lazy loading, global flags, the session. Nothing here knows a noun of the API."""
