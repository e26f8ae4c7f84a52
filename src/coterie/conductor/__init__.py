"""The conductor: registers, sends heartbeats, claims and runs steps, answers questions about clouds, drains."""
