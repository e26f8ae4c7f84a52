"""Fronts: servers that speak a real cloud's API over HTTP, with the simulated datacenter behind them."""
