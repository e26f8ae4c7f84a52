"""A driver in a package of its own. Its cloud, the shelf, is one JSON file."""
