"""`coterie-cpi`: the external CPI that a BOSH Director runs, its core process, and its own small ledger.

Nothing is imported here: the program is started for every call, and most calls need only the thin client.
"""
