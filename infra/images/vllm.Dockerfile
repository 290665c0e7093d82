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

ARG BASE=python:3.11-slim

FROM ${BASE} AS cpu
ARG PIP_INDEX_URL
ARG PIP_FIND_LINKS
# Which versions there are depends on BASE, which is what to pin.
# hadolint ignore=DL3008
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends libnuma1 && rm -rf /var/lib/apt/lists/* \
    && install -d -o 1000 -g 1000 /home/engine
COPY requirements/uv.txt requirements/torch-cpu.txt infra/vllm/requirements-cpu.txt infra/images/install.sh /locks/
RUN --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache/uv /locks/install.sh /opt/vllm requirements-cpu.txt cpu
COPY infra/vllm/serve.py infra/vllm/troupe_guard.py infra/vllm/troupe_weights.py infra/vllm/troupe_worker.py /opt/troupe/
ENV PATH=/opt/vllm/bin:$PATH HOME=/home/engine
USER 1000:1000
ENTRYPOINT ["python3", "/opt/troupe/serve.py"]

FROM vllm/vllm-openai:v0.32.0 AS gpu
RUN install -d -o 1000 -g 1000 /home/engine
COPY infra/vllm/serve.py infra/vllm/troupe_guard.py infra/vllm/troupe_weights.py infra/vllm/troupe_worker.py /opt/troupe/
ENV HOME=/home/engine
USER 1000:1000
ENTRYPOINT ["python3", "/opt/troupe/serve.py"]
