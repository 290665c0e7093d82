"""The chart for its three choices of values: valid, restricted, without a secret; its jobs, its RayJob, who reaches whom."""

import asyncio
import copy
import json
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any, cast
from uuid import uuid4

import pytest

from flows.presets import preset_config
from tests.infra.chart_tools import ROOT, Document, find_problems, needs_charts, render

CHART = ROOT / "infra" / "chart"
pytestmark = needs_charts
CHOICES = {"cpu": 0, "gpu": 1, "8gpu": 8}
"""The GPUs that all pods of each choice ask for."""


@pytest.fixture(scope="module")
def charts() -> dict[str, list[Document]]:
    return dict(zip(CHOICES, render(*(CHART / f"values-{name}.yaml" for name in CHOICES)), strict=True))


def find(documents: list[Document], kind: str, part: str = "") -> Document:
    [found] = [each for each in documents if each["kind"] == kind and each["metadata"]["name"].endswith(part)]
    return found


def list_pods(document: Document) -> Iterator[Document]:
    """Every pod template inside of a document, that of the job template included."""
    if document["kind"] == "ConfigMap":
        yield json.loads(document["data"]["job.json"])["job_configuration"]["job_manifest"]["spec"]["template"]
    spec = document.get("spec", {})
    if "template" in spec:
        yield spec["template"]
    if "submitterPodTemplate" in spec:
        yield spec["submitterPodTemplate"]
    cluster = spec.get("rayClusterSpec", spec)
    yield from (
        group["template"]
        for group in [*filter(None, [cluster.get("headGroupSpec")]), *cluster.get("workerGroupSpecs", [])]
    )


def list_containers(pod: Document) -> list[Document]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def test_every_choice_of_values_is_valid(charts: dict[str, list[Document]]) -> None:
    assert dict(zip(charts, find_problems(list(charts.values())), strict=True)) == {key: [] for key in CHOICES}
    for name, documents in charts.items():
        pods = [pod for document in documents for pod in list_pods(document)]
        limits = [each["resources"]["limits"] for pod in pods for each in list_containers(pod)]
        asked = [limit["nvidia.com/gpu"] for limit in limits if "nvidia.com/gpu" in limit]
        assert sum(each for each in asked if isinstance(each, int)) == CHOICES[name], name


BREAKS: list[tuple[str, str, str, Callable[[Document], object]]] = [
    ("cpu", "RayCluster", "token", lambda d: d["spec"]["authOptions"].update(token="x")),
    ("cpu", "RayCluster", "mounts", lambda d: next(list_pods(d))["spec"]["containers"][0].update(mounts=[])),
    ("cpu", "RayCluster", "replicas", lambda d: d["spec"]["workerGroupSpecs"][0].update(replicas="two")),
    ("8gpu", "RayJob", "backofLimit", lambda d: d["spec"].update(backofLimit=3)),
    (
        "8gpu",
        "RayJob",
        "mountpath",
        lambda d: next(list_pods(d))["spec"]["containers"][0]["volumeMounts"][0].update(mountpath="/"),
    ),
    ("gpu", "Role", "verb", lambda d: d["rules"][0].update(verb=["get"])),
]


def test_a_broken_field_is_found(charts: dict[str, list[Document]]) -> None:
    broken = []
    for choice, kind, _, breaks in BREAKS:
        document = copy.deepcopy(find(charts[choice], kind))
        breaks(document)
        broken.append([document])
    for (_, kind, field, _), lines in zip(BREAKS, find_problems(broken), strict=True):
        assert any(line.startswith(kind) and field in line for line in lines), (kind, field, lines)


def test_pods_are_restricted_and_hold_no_secret(charts: dict[str, list[Document]]) -> None:
    documents = [each for found in charts.values() for each in found]
    assert not [each for each in documents if each["kind"] == "Secret"]
    pods = [pod for document in documents for pod in list_pods(document)]
    assert len(pods) > 20
    for pod in pods:
        spec = pod["spec"]
        context = spec["securityContext"]
        assert context["runAsNonRoot"]
        assert context["runAsUser"] == 1000
        assert context["seccompProfile"]["type"] == "RuntimeDefault"
        part = pod["metadata"]["labels"]["troupe-part"]
        assert spec["automountServiceAccountToken"] is (part == "worker"), part
        for each in list_containers(pod):
            own = each["securityContext"]
            assert own["readOnlyRootFilesystem"]
            assert not own["allowPrivilegeEscalation"]
            assert own["capabilities"] == {"drop": ["ALL"]}
            # Bubblewrap needs more, on nodes and in a user namespace of its own.
            assert (
                ("procMount" in own or "seccompProfile" in own)
                == ("nodeSelector" in spec)
                == (spec.get("hostUsers") is False)
            )
            for variable in each.get("env") or []:
                secret = re.search("PASSWORD|AUTH_STRING$|SECRET_ACCESS|KEY_ID$|SECRET_KEY$", variable["name"])
                assert not secret or "value" not in variable or variable["name"].startswith("PREFECT_INTEGRATIONS_"), (
                    variable
                )
            if part in ("ray", "run"):
                assert not [variable for variable in each.get("env") or [] if variable["name"].startswith("POSTGRES")]


def reaches(documents: list[Document], sender: str, receiver: str, port: int) -> bool:
    """Whether policies let one part of the release connect to another: each side must be allowed by one that chooses it."""

    def chooses(selector: Document, part: str) -> bool:
        labels = {"troupe-release": "t", "troupe-part": part}
        exact = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
        return exact and all(labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", []))

    def allows(part: str, side: str, peers: str, other: str) -> bool:
        policies = [
            each["spec"]
            for each in documents
            if each["kind"] == "NetworkPolicy" and chooses(each["spec"]["podSelector"], part)
        ]
        rules = [rule for policy in policies if side in policy["policyTypes"] for rule in policy[side.lower()]]
        return any(
            ("ports" not in rule or any(each["port"] == port for each in rule["ports"]))
            and (
                peers not in rule
                or any("podSelector" in peer and chooses(peer["podSelector"], other) for peer in rule[peers])
            )
            for rule in rules
        )

    return allows(sender, "Egress", "to", receiver) and allows(receiver, "Ingress", "from", sender)


def test_each_part_reaches_what_it_needs_and_nothing_else(charts: dict[str, list[Document]]) -> None:
    ports = {"postgres": 5432, "s3": 8333, "prefect": 4200, "mlflow": 5000, "ray": 6379}
    wanted = {
        "postgres": {"prefect", "mlflow"},
        "s3": {"mlflow", "run", "ray"},
        "prefect": {"worker", "run", "ray"},
        "mlflow": {"run", "ray"},
        "ray": {"ray"},
    }
    parts = [*ports, "worker", "run", "foreign"]
    for receiver, port in ports.items():
        found = {sender for sender in parts if reaches(charts["cpu"], sender, receiver, port)}
        assert found == wanted[receiver], receiver
    # The API of Kubernetes: any address, at its port.
    assert [part for part in parts if reaches_anywhere(charts["cpu"], part, 443)] == ["worker"]


def reaches_anywhere(documents: list[Document], part: str, port: int) -> bool:
    """Whether a policy that chooses this part alone opens a port to every address."""
    policies = [each["spec"] for each in documents if each["kind"] == "NetworkPolicy"]
    mine = [each for each in policies if each["podSelector"]["matchLabels"].get("troupe-part", part) == part]
    rules = [rule for each in mine for rule in each.get("egress", [])]
    return any("to" not in rule and any(each["port"] == port for each in rule["ports"]) for rule in rules)


def test_the_rayjob_trains_and_its_restart_resumes(charts: dict[str, list[Document]]) -> None:
    spec = find(charts["8gpu"], "RayJob")["spec"]
    words = shlex.split(spec["entrypoint"])
    assert words[:2] == ["troupe", "train"]
    assert words[3:5] == ["--run-id", "math-qwen-8gpu"]
    assert spec["backoffLimit"] > 0
    assert spec["submissionMode"] == "K8sJobMode"
    overrides = [word for flag, word in zip(words[5::2], words[6::2], strict=True) if flag == "--set"]
    config = preset_config(words[2], overrides)
    assert (config.resources.runner, config.store.kind, config.store.bucket) == ("ray", "s3", "troupe")
    assert not [each for each in charts["8gpu"] if each["kind"] == "RayCluster"]


def test_ray_has_a_token_shared_memory_and_its_processes_their_share_of_time(charts: dict[str, list[Document]]) -> None:
    cluster = find(charts["gpu"], "RayCluster")["spec"]
    assert cluster["authOptions"] == {"mode": "token", "secretName": "troupe-ray"}
    for group in [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]:
        spec = group["template"]["spec"]
        [container] = spec["containers"]
        assert {"name": "RAY_worker_niceness", "value": "0"} in container["env"]
        [volume] = [each for each in spec["volumes"] if each["name"] == "shm"]
        assert volume["emptyDir"]["medium"] == "Memory"
        assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]


@pytest.mark.parametrize(("given", "gpus"), [({}, None), ({"gpus": 1, "image": "other:1", "env": {"A": "b"}}, 1)])
def test_prefect_makes_a_valid_job_of_the_template(
    charts: dict[str, list[Document]], given: Document, gpus: int | None
) -> None:
    template = json.loads(find(charts["cpu"], "ConfigMap")["data"]["job.json"])
    job = asyncio.run(fill_in(template, {"command": "python -P -m prefect.engine", **given}))
    pod = job["spec"]["template"]["spec"]
    assert (pod.pop("parallelism"), pod.pop("completions")) == (1, 1)  # Prefect's own: no fields of a pod
    assert find_problems([[job]]) == [[]]
    text = json.dumps(job)
    assert "{{" not in text
    assert "POSTGRES" not in text
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["python", "-P", "-m", "prefect.engine"]
    assert container["image"] == given.get("image", "troupe:0.1.0")
    assert container["resources"]["limits"].get("nvidia.com/gpu") == gpus
    names = [each["name"] for each in container["env"]]
    assert {"AWS_ENDPOINT_URL_S3", "MLFLOW_TRACKING_URI", "PREFECT__FLOW_RUN_ID", *given.get("env", {})} <= set(names)
    assert len(names) == len(set(names))


async def fill_in(template: Document, values: Document) -> Document:
    """The manifest that Prefect's own worker makes of a base job template for a flow run."""
    from prefect.client.schemas.objects import FlowRun
    from prefect_kubernetes.worker import KubernetesWorkerJobConfiguration

    # A client is asked for blocks and variables, of which the template names none.
    found = await KubernetesWorkerJobConfiguration.from_template_and_values(
        base_job_template=template, values=values, client=cast(Any, object())
    )
    found.prepare_for_flow_run(FlowRun(id=uuid4(), name="quick-fox", flow_id=uuid4()))
    return found.job_manifest
