"""`coterie ssh`, `ssh-config` and `inventory`: how people and programs reach the machines of nodes."""
