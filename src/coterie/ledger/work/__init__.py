"""Tasks, stages and steps, their claims and leases, and the conductors that run them."""
