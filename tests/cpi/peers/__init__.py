"""What the conformance kit is run against: beds, and foreign CPI programs written for the exec driver."""
