"""Workers on a Ray cluster, on hosts that share nothing but the store."""
