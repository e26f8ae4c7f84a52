"""How a service tells what it does: logs, meters, traces. Knows no noun of ours, no database and no HTTP route."""
