"""What users ask for, from the request to the rows of a task: planning, accepting, enrolling, auditing."""
