"""The driver of Apache CloudStack clouds: the contract in the words of its API. No SDK enters here."""
