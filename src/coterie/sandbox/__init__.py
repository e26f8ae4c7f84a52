"""A simulated datacenter in one SQLite file, shared by any number of processes and outliving all of them.

Knows clouds' habits, not ours: nothing of Coterie enters but `errors` and `ids`. Its calls are the functions of
`vms`, `disks`, `snapshots`, `images`, `networks`, `security_groups`, `server_groups`, `labels` and `accounts`, each
taking an `Account`; what only the owner of the building may do is in `reshape`, `faults`, `calls` and `view`.
"""
