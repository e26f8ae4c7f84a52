"""The driver of Google Cloud: Compute Engine of one project and region."""
