"""Compute Engine in front of the simulated datacenter: strict by the vendor's definition, and as inconvenient."""
