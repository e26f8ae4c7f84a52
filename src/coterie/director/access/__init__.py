"""Who comes in and what they may do: tokens, JSON web tokens, roles, teams, the record of changes. SQL stays out."""
