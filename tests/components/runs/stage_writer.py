"""A process that runs one stage and may stop itself in the middle: `stage_writer.py URI ENDPOINT STOP_AT NAME`.

STOP_AT is `kill:POINT`, `stop:POINT` or `never`; POINT is before-payload, after-payload or after-manifest.
"""

import json
import os
import signal
import sys
from pathlib import Path
from urllib.parse import urlparse

from components.artifacts import payloads
from components.artifacts.base import ArtifactStore
from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import ArtifactRef
from components.artifacts.s3 import S3ArtifactStore
from components.identity import StageKey
from components.runs.stage_protocol import run_stage
from components.schema import Problem

KEY = StageKey(
    run_id="writers", step=3, stage="compute_rewards", version=1, part="shard-000", lineage=0, depends_on="00ff"
)


def open_remote(uri: str, endpoint_url: str) -> ArtifactStore:
    parsed = urlparse(uri)
    if parsed.scheme == "file":
        return LocalArtifactStore(Path(parsed.path))
    return S3ArtifactStore(parsed.netloc, prefix=parsed.path, endpoint_url=endpoint_url)


def main(uri: str, endpoint_url: str, stop_at: str, name: str) -> None:
    store = open_remote(uri, endpoint_url)

    def pass_by(point: str) -> None:
        if stop_at.endswith(f":{point}"):
            os.kill(os.getpid(), signal.SIGKILL if stop_at.startswith("kill") else signal.SIGSTOP)

    def compute() -> ArtifactRef:
        pass_by("before-payload")
        ref = payloads.put(store, Problem(problem_id=name, environment="none", payload={}))
        pass_by("after-payload")
        return ref

    result = run_stage(store, KEY, compute, ArtifactRef)
    pass_by("after-manifest")
    writer = payloads.get(store, result.output, Problem).problem_id
    print(json.dumps({"writer": writer, "reused": result.reused}))


if __name__ == "__main__":
    main(*sys.argv[1:])
