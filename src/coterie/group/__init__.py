"""Server groups: policies, their states, and what a changed spec means for a group. Pure."""
