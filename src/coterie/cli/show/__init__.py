"""How things look: tables, colours, times, problems, progress. Nothing here asks the Director."""
