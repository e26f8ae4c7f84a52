"""The worker: registers, heartbeats, claims steps and questions of its site, drains. It decides nothing by itself."""
