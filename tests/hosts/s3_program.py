"""On the host of S3: what all hosts ask, noted in /tmp/requests, and answered 503 while there is a file /tmp/away.

python -m tests.hosts.s3_program HOST PORT OWN_PORT
"""

import sys
from pathlib import Path

from tests.components.artifacts.faulty_proxy import FaultyProxy


def main(host: str, port: int, own_port: int) -> None:
    proxy, away = FaultyProxy(port, host=host, port=own_port), Path("/tmp/away")
    proxy.fault = lambda method, path: "answer_503" if away.exists() else None
    with Path("/tmp/requests").open("a", buffering=1, encoding="utf-8") as requests:

        def tell(client: str, method: str, path: str, status: int) -> None:
            requests.write(f"{client} {method} {path} {status}\n")

        proxy.tell = tell
        proxy.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
