"""Apache CloudStack's API on the simulated datacenter: wire, jobs and semantics. No client's code enters here."""
