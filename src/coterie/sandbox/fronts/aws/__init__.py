"""AWS in front of the sandbox: EC2, EBS direct and STS, as far as a CPI needs them."""
