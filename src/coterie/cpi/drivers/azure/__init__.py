"""The driver of Microsoft Azure."""
