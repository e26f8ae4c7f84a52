"""What routes and timers do, one function each. Decisions are made in `plan`, `requests` and `cleanup`."""
