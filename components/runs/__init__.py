"""The ledger of a run: what its records say, and what may be done with them."""
