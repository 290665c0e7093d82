"""The test utilities and benchmarks, which the API's page has under `tests.utils` and `tests.benchmarks`."""

from flows.api.hybrid.testing.benchmarks import benchmark_decision_latency as benchmark_decision_latency
from flows.api.hybrid.testing.benchmarks import benchmark_memory_usage as benchmark_memory_usage
from flows.api.hybrid.testing.benchmarks import benchmark_training_speed as benchmark_training_speed
from flows.api.hybrid.testing.utils import cleanup_test_files as cleanup_test_files
from flows.api.hybrid.testing.utils import create_mock_environment as create_mock_environment
from flows.api.hybrid.testing.utils import create_test_trainer as create_test_trainer
from flows.api.hybrid.testing.utils import generate_test_config as generate_test_config
