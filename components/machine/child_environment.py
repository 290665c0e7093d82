"""The environment of processes that Troupe starts: an allow list of variables, without the user's credentials."""

import re
from collections.abc import Mapping

from components.errors import ConfigurationError

PASS_VARIABLE = "TROUPE_PASS_ENV"
NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "COLUMNS"),
        *("TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("PYTHONPATH", "PYTHONHASHSEED", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD", "CC", "CXX", "MAX_JOBS"),
        *("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"),
        *("TRANSFORMERS_CACHE", "TRANSFORMERS_OFFLINE", "TOKENIZERS_PARALLELISM"),
        *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
        # The path of a secret is not a secret.
        *("TROUPE_VLLM_KEY_FILE", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"),
        *("DOCKER_HOST", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
    }
)
PREFIXES = (
    *("LC_", "CUDA_", "CUBLAS_", "CUDNN_", "NCCL_", "GLOO_", "UCX_", "FI_"),
    *("OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_"),
    *("MALLOC_", "TORCH_", "PYTORCH_", "TORCHINDUCTOR_", "TRITON_", "DS_", "VLLM_", "RAY_", "TROUPE_"),
)
WAITING = {"OMP_WAIT_POLICY": "passive"}
"""Threads that wait for each other sleep. Spinning ones, the default, take a busy machine's cores from those they wait for."""
_ACCOUNT = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)


def filter_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables in `environ` that are on the list or have its prefixes, except names that look like credentials.

    **Example** PATH, LC_ALL and NCCL_DEBUG stay; OPENAI_API_KEY, HF_TOKEN and VLLM_API_KEY do not.
    """
    return {
        name: value
        for name, value in environ.items()
        if name in NAMES or (name.startswith(PREFIXES) and not _ACCOUNT.search(name))
    }


def list_forwarded_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables named in TROUPE_PASS_ENV, separated by commas, for flow runs on the worker.

    **Example** TROUPE_PASS_ENV=OPENAI_API_KEY gives {"OPENAI_API_KEY": ...}. Raises ConfigurationError for an unset variable.
    """
    names = [name.strip() for name in environ.get(PASS_VARIABLE, "").split(",") if name.strip()]
    if missing := [name for name in names if name not in environ]:
        raise ConfigurationError(f"{PASS_VARIABLE}: {', '.join(missing)} is not set; set it, or take its name out")
    return {name: environ[name] for name in names}


def without_proxy(env: Mapping[str, str]) -> dict[str, str]:
    """NO_PROXY, in both spellings, extended so that requests to this machine bypass any proxy."""
    known = [host for host in (env.get("NO_PROXY") or env.get("no_proxy") or "").split(",") if host]
    value = ",".join(dict.fromkeys([*known, "127.0.0.1", "localhost"]))
    return {"NO_PROXY": value, "no_proxy": value}
