"""Following a task: live rows on a terminal, one line per change elsewhere, and a report at its end."""
