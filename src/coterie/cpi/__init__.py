"""Cloud drivers and the contract they fulfil. Drivers import `coterie.cpi.contract` and nothing else of ours."""
