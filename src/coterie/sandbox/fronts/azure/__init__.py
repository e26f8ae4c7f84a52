"""Azure Resource Manager in front of the simulated datacenter, strict against the vendor's own definition."""
