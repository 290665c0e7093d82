"""Stands for vLLM's server where a test is about who starts it and where: the wire server, by vLLM's command line."""

import argparse
import os
import threading
from pathlib import Path

from tests.components.generation.vllm import wire_server

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, kind in (("model", Path), ("served-model-name", str), ("host", str), ("port", int)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    asked, _ = parser.parse_known_args()
    assert (asked.model / "config.json").is_file()
    wire_server.KEY = Path(os.environ["TROUPE_VLLM_KEY_FILE"]).read_text(encoding="utf-8")
    with wire_server.wire_server(asked.served_model_name, host=asked.host, port=asked.port):
        threading.Event().wait()
