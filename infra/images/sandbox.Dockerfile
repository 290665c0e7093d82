# The box that programs run in, for machines with a registry. From the root of the repository:
#
#     docker build -f infra/images/sandbox.Dockerfile -t troupe-sandbox:3.11 components/sandbox \
#         --build-arg PYTHON=python:3.11-slim@sha256:...
#
# with the digest that you have looked at (`docker buildx imagetools inspect python:3.11-slim`): a tag may be anything tomorrow.
# Then `open_sandbox("docker", image="troupe-sandbox:3.11", ...)`. Without a registry nothing is to be built: the image is
# made from the machine's own Python when a sandbox is first opened.

ARG PYTHON
FROM ${PYTHON} AS python
COPY runner.py /runner.py
COPY box_counts.py confinement.py /components/sandbox/
# Bytecode that is trusted as it stands: nothing can be written when programs run.
RUN set -eu; \
    chmod 0644 /runner.py /components/sandbox/*.py; \
    ln -s /usr/local/bin/python3 /usr/bin/python3; \
    cd /usr/local/lib/python3.11; \
    rm -rf site-packages ensurepip idlelib lib2to3 tkinter turtledemo pydoc_data test venv config-3.11-*; \
    find . -name __pycache__ -prune -exec rm -rf {} +; \
    PYTHONHASHSEED=0 python3 -m compileall -q -o 0 --invalidation-mode unchecked-hash .; \
    rm -f /usr/local/bin/pip* /usr/local/bin/idle* /usr/local/bin/pydoc* /usr/local/bin/2to3* /usr/local/bin/python3*-config
# Package managers, what they keep, and every setuid program; the shell and the tools at last, because they do this.
RUN set -eu; \
    rm -rf /usr/bin/apt* /usr/bin/dpkg* /usr/lib/apt /usr/lib/dpkg /var/lib/apt /var/lib/dpkg /var/cache /var/log \
        /etc/apt /etc/dpkg /etc/shadow /etc/gshadow /root /home /media /mnt /opt /srv /usr/share /usr/sbin /usr/games; \
    find / -xdev -type f -perm /6000 -delete; \
    mkdir -p /usr/share; \
    find /usr/bin -xdev \( -type f -o -type l \) ! -name 'python3*' ! -name rm ! -name sh ! -name dash -delete; \
    exec rm -f /usr/bin/sh /usr/bin/dash /usr/bin/rm

# One layer without what was removed.
FROM scratch
COPY --from=python / /
USER 65534:65534
WORKDIR /tmp
ENTRYPOINT ["/usr/bin/python3", "-s", "/runner.py"]
