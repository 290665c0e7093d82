"""The test utilities and benchmarks, which the API's page has under `tests.utils` and `tests.benchmarks`."""
