"""What every verb shares: lazy loading, global flags, the session. No noun of the API appears here."""
