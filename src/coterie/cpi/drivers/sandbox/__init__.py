"""The driver of the simulated datacenter: translates the contract into its calls and its refusals into our errors."""
