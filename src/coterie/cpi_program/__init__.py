"""The name that `coterie.bosh` had in release 0.1.0: launchers of that release import `cpi_program.client`."""
