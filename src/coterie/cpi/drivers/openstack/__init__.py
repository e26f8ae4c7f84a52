"""The driver of OpenStack clouds."""
