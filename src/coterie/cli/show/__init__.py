"""Output: tables, colours, times, problems, progress. Nothing here calls the Director."""
