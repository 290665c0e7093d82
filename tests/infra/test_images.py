"""The files of images and of the services on one host: linted, without an open port, and plain about what is missing."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.infra.chart_tools import ROOT, needs_charts, run_tool

IMAGES = ROOT / "infra" / "images"
COMPOSE = ROOT / "infra" / "compose.yaml"
SERVICE = IMAGES / "service.sh"


def list_secrets() -> dict[str, str]:
    """What `make_secrets.sh` prints, as variables."""
    printed = subprocess.run([ROOT / "infra" / "make_secrets.sh"], capture_output=True, text=True, check=True).stdout
    return dict(line.split("=", 1) for line in printed.splitlines())


@needs_charts
def test_linters_find_nothing() -> None:
    recipes = sorted(map(str, IMAGES.glob("*.Dockerfile")))
    assert len(recipes) == 2
    found = run_tool("hadolint", "--failure-threshold", "style", *recipes)
    assert (found.returncode, found.stdout) == (0, ""), found.stdout
    files = [*map(str, (ROOT / "infra" / "chart").glob("*.yaml")), str(COMPOSE)]
    rules = (
        "{extends: default, rules: {document-start: disable, line-length: {max: 160}, braces: {max-spaces-inside: 1}}}"
    )
    found = run_tool("yamllint", "--strict", "-d", rules, *files)
    assert (found.returncode, found.stdout) == (0, ""), found.stdout


@needs_charts
def test_the_linter_of_recipes_finds_what_it_should(tmp_path: Path) -> None:
    broken = tmp_path / "broken.Dockerfile"
    broken.write_text((IMAGES / "troupe.Dockerfile").read_text().replace("# hadolint ignore=DL3008\n", "", 1))
    found = run_tool("hadolint", str(broken))
    assert found.returncode != 0
    assert "DL3008" in found.stdout


def test_every_port_is_bound_to_this_machine_and_every_secret_is_made() -> None:
    text = COMPOSE.read_text()
    services = yaml.safe_load(text)["services"]
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)
    asked = set(re.findall(r"\$\{(\w+):\?", text))
    secrets = list_secrets()
    assert asked <= set(secrets)
    assert set(re.findall(r"\$\{(\w+)-", text)) == {"S3_PORT", "PREFECT_PORT", "MLFLOW_PORT"}
    assert len(set(secrets.values())) == len(secrets)
    again = list_secrets()
    assert [name for name in secrets if secrets[name] == again[name]] == ["MLFLOW_TRACKING_USERNAME"]


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose is not installed")
def test_docker_compose_reads_the_file_and_refuses_a_missing_secret(tmp_path: Path) -> None:
    (empty := tmp_path / "empty").touch()  # a file of this checkout's own would be read
    command = ["docker-compose", "--env-file", str(empty), "-f", str(COMPOSE), "config", "-q"]
    env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    read = subprocess.run(command, env=env | list_secrets(), capture_output=True, text=True)
    assert read.returncode == 0, read.stderr
    refused = subprocess.run(command, env=env, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "make_secrets.sh" in refused.stderr


@pytest.mark.parametrize(
    ("service", "missing"),
    [("postgres", "POSTGRES_PASSWORD"), ("seaweedfs", "AWS_ACCESS_KEY_ID"), ("prefect", "PREFECT_SERVER_API_AUTH_STRING"),
     ("mlflow", "MLFLOW_TRACKING_USERNAME"), ("worker", "PREFECT_API_URL"), ("deploy", "PREFECT_API_URL"),
     ("none", "write postgres")],
)  # fmt: skip
def test_a_service_names_what_it_lacks(service: str, missing: str) -> None:
    found = subprocess.run(
        ["sh", str(SERVICE), service], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True
    )
    assert found.returncode == 64
    assert missing in found.stderr


def test_a_password_of_any_characters_fits_into_the_url_of_a_database() -> None:
    script = SERVICE.read_text().partition("\nservice=")[0] + "\ndatabase_url psycopg2 mlflow\n"
    env = {"PATH": os.environ["PATH"], "POSTGRES_HOST": "db", "POSTGRES_PASSWORD": "a@b/c:%d"}
    found = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=True).stdout.strip()
    assert found == "postgresql+psycopg2://troupe:a%40b%2Fc%3A%25d@db:5432/mlflow"


def test_an_image_takes_one_of_the_locks_of_pytorch(tmp_path: Path) -> None:
    shutil.copy(IMAGES / "install.sh", tmp_path)
    found = subprocess.run(
        ["sh", tmp_path / "install.sh", tmp_path / "env", "images.txt", "tpu"], capture_output=True, text=True
    )
    assert found.returncode == 64
    assert "cpu or pypi" in found.stderr
    assert not (tmp_path / "env").exists()
