"""The environment of processes that Troupe starts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.machine.child_environment import PREFIXES, filter_environment, list_forwarded_variables

ACCOUNTS = (
    *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN", "VLLM_API_KEY", "RAY_AUTH_TOKEN", "TROUPE_PASSWORD"),
    *("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "PREFECT_API_URL", "MLFLOW_TRACKING_TOKEN", "SSH_AUTH_SOCK", "GITHUB_TOKEN"),
    *("TROUPE_PASS_ENV", "DATABASE_URL", "PYTHONDONTWRITEBYTECODE"),
)
NEEDED = ("PATH", "HOME", "LC_ALL", "TMPDIR", "https_proxy", "SSL_CERT_FILE", "CUDA_VISIBLE_DEVICES", "NCCL_DEBUG")
WHERE = ("TROUPE_VLLM_KEY_FILE", "RAY_AUTH_TOKEN_PATH")


def test_what_programs_need_is_inherited_and_accounts_are_not() -> None:
    kept = (*NEEDED, *WHERE)
    assert filter_environment(dict.fromkeys((*ACCOUNTS, *kept), "x")) == dict.fromkeys(kept, "x")


@given(
    prefix=st.sampled_from(PREFIXES), word=st.sampled_from(["API_KEY", "TOKEN", "Secret", "PASSWORD", "credentials"])
)
def test_no_family_lets_an_account_through(prefix: str, word: str) -> None:
    assert filter_environment({f"{prefix}{word}": "x", f"{prefix}MY_{word}_2": "x"}) == {}


def test_the_user_names_what_flow_runs_may_have() -> None:
    environ = {"TROUPE_PASS_ENV": "OPENAI_API_KEY, HF_TOKEN,", "OPENAI_API_KEY": "k", "HF_TOKEN": "t", "OTHER": "o"}
    assert list_forwarded_variables(environ) == {"OPENAI_API_KEY": "k", "HF_TOKEN": "t"}
    assert list_forwarded_variables({"OPENAI_API_KEY": "k"}) == {}
    with pytest.raises(ConfigurationError, match="TROUPE_PASS_ENV: HF_TOKEN is not set"):
        list_forwarded_variables({"TROUPE_PASS_ENV": "HF_TOKEN"})
