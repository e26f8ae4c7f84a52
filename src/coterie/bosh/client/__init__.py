"""The program that a BOSH Director starts for every call. It imports next to nothing."""
