# A vLLM server that is an engine of Troupe, for machines with a registry. From the root of the repository, for a machine with
# GPUs, and for one without:
#
#     docker build -f infra/images/vllm.Dockerfile --target gpu -t troupe-vllm:gpu .
#     docker build -f infra/images/vllm.Dockerfile --target cpu -t troupe-vllm:cpu .
#
# and then, beside a trainer whose TMPDIR is /shared/tmp:
#
#     docker run --rm --network host --ipc host [--gpus all] -v /shared:/shared:ro \
#         -v ~/vllm-key:/key:ro -e TROUPE_VLLM_KEY_FILE=/key troupe-vllm:gpu \
#         --host 127.0.0.1 --port 8000 --model /shared/start --served-model-name team --dtype bfloat16
#
# with `generation.vllm: {urls: [http://127.0.0.1:8000], key_file: ~/vllm-key}`, a file made by `(umask 077; openssl rand -hex 32 >
# ~/vllm-key)`.

FROM python:3.11-slim AS cpu
RUN apt-get update && apt-get install -y --no-install-recommends libnuma1 && rm -rf /var/lib/apt/lists/*
COPY requirements/torch-cpu.txt infra/vllm/requirements-cpu.txt /opt/troupe/
RUN pip install --no-cache-dir --no-deps --require-hashes --index-url https://download.pytorch.org/whl/cpu \
        -r /opt/troupe/torch-cpu.txt \
    && pip install --no-cache-dir --no-deps --require-hashes -r /opt/troupe/requirements-cpu.txt
COPY infra/vllm/serve.py infra/vllm/troupe_guard.py infra/vllm/troupe_weights.py infra/vllm/troupe_worker.py /opt/troupe/
ENTRYPOINT ["python3", "/opt/troupe/serve.py"]

FROM vllm/vllm-openai:v0.32.0 AS gpu
COPY infra/vllm/serve.py infra/vllm/troupe_guard.py infra/vllm/troupe_weights.py infra/vllm/troupe_worker.py /opt/troupe/
ENTRYPOINT ["python3", "/opt/troupe/serve.py"]
