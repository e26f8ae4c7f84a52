"""The web console: pages that are made from the answers of the API's own routes, called in this process.

No page reads the ledger or decides anything: what a caller may see and do is what the API lets that caller see and do.
"""
