"""Renders the chart by Helm's own engine, and checks documents against the schemas of Kubernetes. No cluster, no network.

    .venv-charts/bin/python tests/infra/chart_tool.py render VALUES.yaml ... > documents.json
    .venv-charts/bin/python tests/infra/chart_tool.py problems [CRDS] < documents.json

Documents are lists of lists: one a file of values. KubeRay's kinds are checked against the fields below, or against the
definitions `ray.io_rayclusters.yaml` and `ray.io_rayjobs.yaml` in the folder CRDS; and in any case their pod templates as pods,
because those definitions admit fields that no pod has.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHART = Path(__file__).resolve().parents[2] / "infra" / "chart"
KUBERNETES = "1.34"


def fields(required: str = "", **properties: Any) -> dict[str, Any]:
    """The schema of an object with these fields and no others."""
    return {"type": "object", "properties": properties, "required": required.split(), "additionalProperties": False}


TEXT, NUMBER, ANY = {"type": "string"}, {"type": "integer"}, {"type": "object"}
PARAMETERS = {"type": "object", "additionalProperties": TEXT}
GROUP = fields(
    "groupName minReplicas maxReplicas template",
    groupName=TEXT, replicas=NUMBER, minReplicas=NUMBER, maxReplicas=NUMBER, rayStartParams=PARAMETERS, template=ANY,
)  # fmt: skip
CLUSTER = fields(
    "headGroupSpec",
    rayVersion=TEXT,
    authOptions=fields("mode", mode={"enum": ["disabled", "token"]}, secretName=TEXT),
    headGroupSpec=fields("template", rayStartParams=PARAMETERS, template=ANY),
    workerGroupSpecs={"type": "array", "items": GROUP},
)
JOB = fields(
    "entrypoint rayClusterSpec",
    entrypoint=TEXT, backoffLimit=NUMBER, submissionMode={"enum": ["K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode"]},
    submitterConfig=fields(backoffLimit=NUMBER), shutdownAfterJobFinishes={"type": "boolean"},
    ttlSecondsAfterFinished=NUMBER, submitterPodTemplate=ANY, rayClusterSpec=CLUSTER,
)  # fmt: skip
OWN = {
    kind: fields("spec", apiVersion={"const": "ray.io/v1"}, kind={"const": kind}, metadata=ANY, spec=spec)
    for kind, spec in {"RayCluster": CLUSTER, "RayJob": JOB}.items()
}


def render(files: list[str]) -> list[list[dict[str, Any]]]:
    """The documents of the chart for each file of values."""
    import helm_python
    import yaml

    with helm_python.Chart.load(str(CHART)) as chart:
        texts = [chart.render(yaml.safe_load(Path(file).read_text()), name="t", namespace="rl") for file in files]
    return [[each for text in found.values() for each in yaml.safe_load_all(text) if each] for found in texts]


def read_definitions(folder: Path) -> dict[str, dict[str, Any]]:
    """KubeRay's own schemas by kind, with unknown fields refused where fields are listed, as the server prunes them."""
    import yaml

    found = {}
    for file in folder.glob("ray.io_*.yaml"):
        definition = yaml.load(file.read_text(), yaml.CSafeLoader)["spec"]
        [version] = [each for each in definition["versions"] if each["name"] == "v1"]
        schema = refuse_unknown(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = ANY
        found[definition["names"]["kind"]] = schema
    return found


def refuse_unknown(schema: Any) -> Any:
    if isinstance(schema, list):
        return [refuse_unknown(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: refuse_unknown(value) for key, value in schema.items()}
    if isinstance(found.get("properties"), dict) and not found.get("x-kubernetes-preserve-unknown-fields"):
        found.setdefault("additionalProperties", False)
    if found.pop("x-kubernetes-int-or-string", False):
        found = {"type": ["integer", "string"]}
    return found


def pods(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every pod template of one of KubeRay's kinds, as a pod."""
    spec = document["spec"]
    cluster = spec.get("rayClusterSpec", spec)
    templates = [group["template"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]
    for template in [*templates, *([spec["submitterPodTemplate"]] if "submitterPodTemplate" in spec else [])]:
        yield {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "x", **template.get("metadata", {})}}


def problems(document: dict[str, Any], schemas: dict[str, dict[str, Any]]) -> Iterator[str]:
    """One line for each thing that a server would refuse."""
    import jsonschema
    import kubernetes_validate

    kind = document["kind"]
    checked = [document]
    if kind in schemas:
        for error in jsonschema.Draft7Validator(schemas[kind]).iter_errors(document):
            yield f"{kind} {'.'.join(map(str, error.path))}: {error.message[:200]}"
        checked = list(pods(document))
    for each in checked:
        try:
            kubernetes_validate.validate(each, KUBERNETES, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"{kind} {'.'.join(map(str, error.path))}: {error.message[:200]}"


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "render":
        json.dump(render(arguments), sys.stdout)
    else:
        schemas = read_definitions(Path(arguments[0])) if arguments else OWN
        json.dump(
            [[line for each in found for line in problems(each, schemas)] for found in json.load(sys.stdin)], sys.stdout
        )
