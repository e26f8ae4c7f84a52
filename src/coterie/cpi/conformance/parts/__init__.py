"""The tests of the kit, one file per noun of the contract. They know the contract and the lab, never a driver."""
