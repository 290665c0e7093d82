"""Language models as files and modules: loading, adapters, tokenizers, sizes, digests."""
