"""What every request passes before the routes: size limits, API version, tracing."""
