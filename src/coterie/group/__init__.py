"""Server groups as ideas: policies, their life, and what a change of wish means. Pure."""
