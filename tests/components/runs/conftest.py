"""The stores that the records of runs are tested in."""

from tests.components.artifacts.conftest import (
    credentials,
    double,
    overwrite,
    plain_store,
    proxied_store,
    proxy,
    s3_store,
    store,
    weed,
)

__all__ = ["credentials", "double", "overwrite", "plain_store", "proxied_store", "proxy", "s3_store", "store", "weed"]
