"""The driver of Incus clusters."""
