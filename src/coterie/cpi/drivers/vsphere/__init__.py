"""The driver of VMware vCenter: translates the contract into its calls and its faults into our errors."""
