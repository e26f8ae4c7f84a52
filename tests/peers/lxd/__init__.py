"""A real LXD: how it is built, and placement groups of later releases before it."""
