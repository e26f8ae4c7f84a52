"""Authentication and authorization: tokens, JSON web tokens, roles, teams, the record of changes. SQL stays out."""
