"""On the head: what is in use on the cluster, and which groups and named actors there are. Prints JSON."""

import json
import time

import ray
from ray.util import list_named_actors
from ray.util.placement_group import placement_group_table


def main(patience_seconds: float = 60.0) -> None:
    ray.init(address="auto", log_to_driver=False, namespace="troupe")
    deadline = time.monotonic() + patience_seconds
    while True:
        whole, free = ray.cluster_resources(), ray.available_resources()
        used = {name: whole[name] - free.get(name, 0) for name in ("CPU", "GPU") if whole[name] != free.get(name, 0)}
        groups = [each["name"] for each in placement_group_table().values() if each["state"] != "REMOVED"]
        actors = [each["name"] for each in list_named_actors(all_namespaces=True)]
        if not (used or groups or actors) or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    print(json.dumps({"used": used, "groups": groups, "actors": actors}))


if __name__ == "__main__":
    main()
