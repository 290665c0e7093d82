"""Content-addressed payloads, manifests that are written last, and the one stage protocol on top of them."""
