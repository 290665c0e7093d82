# Troupe and what runs around it. From the root of the repository:
#
#     docker build -f infra/images/troupe.Dockerfile --target worker -t troupe:0.1.0 .
#     docker build -f infra/images/troupe.Dockerfile --target trainer --build-arg TORCH=pypi -t troupe-trainer:0.1.0 .
#     docker build -f infra/images/troupe.Dockerfile --target engine --build-arg TORCH=pypi -t troupe-engine:0.1.0 .
#     docker build -f infra/images/troupe.Dockerfile --target boxes -t troupe-boxes:0.1.0 .
#     docker build -f infra/images/troupe.Dockerfile --target postgres -t troupe-postgres:0.1.0 .
#
# BASE is a Debian or Ubuntu with a Python of 3.11 to 3.13, its venv and its headers. TORCH chooses a lock of PyTorch: cpu, or pypi, whose
# builds bring CUDA along. Where a network has a certificate authority of its own: `--secret id=ca,src=FILE.pem`.
# Packages of Debian have no versions here: which there are depends on BASE, which is what to pin.
ARG BASE=python:3.11-slim

FROM ${BASE} AS packages
SHELL ["/bin/sh", "-euc"]
ARG TORCH=cpu
ARG PIP_INDEX_URL
ARG PIP_FIND_LINKS
# A package or two come as source.
# hadolint ignore=DL3008
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY requirements/uv.txt requirements/images.txt requirements/torch-cpu.txt requirements/torch-pypi.txt /locks/
COPY infra/images/install.sh /locks/
RUN --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache/uv /locks/install.sh /opt/troupe images.txt "$TORCH"
COPY . /source/
RUN /opt/troupe/bin/uv pip install --quiet --python /opt/troupe --no-deps --no-build-isolation --compile-bytecode /source

# Plays episodes, drives runs, takes flow runs from Prefect, trains on the CPU. Prefect's server, MLflow's and SeaweedFS are in it, too.
FROM ${BASE} AS worker
# KubeRay starts Ray from a login shell in some versions, which sets PATH anew: it is that shell which reads $PATH.
# hadolint ignore=SC2016
RUN useradd --uid 1000 --non-unique --user-group --create-home troupe \
    && mkdir /data && chown 1000:1000 /data \
    && echo 'PATH=/opt/troupe/bin:$PATH' >/etc/profile.d/troupe.sh
COPY --from=packages /opt/troupe /opt/troupe
COPY infra/images/service.sh /usr/local/bin/troupe-service
# Bytecode is compiled, and nothing writes beside it. No service reports to its makers.
ENV HOME=/home/troupe \
    PATH=/opt/troupe/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    OMP_WAIT_POLICY=passive \
    DO_NOT_TRACK=1 \
    MLFLOW_DISABLE_TELEMETRY=true \
    PREFECT_SERVER_ANALYTICS_ENABLED=false \
    RAY_USAGE_STATS_ENABLED=0 \
    RAY_grpc_client_keepalive_time_ms=10000 \
    RAY_grpc_client_keepalive_timeout_ms=20000
USER 1000:1000
WORKDIR /home/troupe
CMD ["troupe", "doctor"]

# A worker whose PyTorch has CUDA: Triton compiles its kernels at their first use.
FROM worker AS trainer
USER 0:0
# hadolint ignore=DL3008
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
USER 1000:1000

# The packages of vLLM, whose pins never bind those above. VLLM chooses a lock: gpu, which brings a PyTorch of its own, or cpu.
FROM packages AS vllm
ARG VLLM=gpu
ARG PIP_INDEX_URL
ARG PIP_FIND_LINKS
COPY infra/vllm/requirements-gpu.txt infra/vllm/requirements-cpu.txt /locks/
RUN --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache/uv \
    if [ "$VLLM" = cpu ]; then torch=cpu; else torch=none; fi; /locks/install.sh /opt/vllm "requirements-$VLLM.txt" "$torch"

# A trainer with vLLM beside it: a node of a Ray cluster on which runs start their servers.
FROM trainer AS engine
USER 0:0
# hadolint ignore=DL3008
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends libnuma1 && rm -rf /var/lib/apt/lists/*
COPY --from=vllm /opt/vllm /opt/vllm
ENV TROUPE_VLLM_ENVIRONMENT=/opt/vllm
USER 1000:1000

# A worker that runs programs of agents, in bubblewrap. Its nodes must allow namespaces to unprivileged users.
FROM worker AS boxes
USER 0:0
# hadolint ignore=DL3008
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends bubblewrap && rm -rf /var/lib/apt/lists/*
USER 1000:1000

# The database of Prefect's server and MLflow's, where no other is at hand.
FROM ${BASE} AS postgres
# hadolint ignore=DL3008
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql && rm -rf /var/lib/apt/lists/* /var/lib/postgresql/* \
    && useradd --uid 1000 --user-group --create-home troupe && mkdir /data && chown 1000:1000 /data
COPY infra/images/service.sh /usr/local/bin/troupe-service
USER 1000:1000
WORKDIR /home/troupe
ENTRYPOINT ["troupe-service"]
CMD ["postgres"]
