"""What every request passes before the routes: limits, API version, tracing."""
