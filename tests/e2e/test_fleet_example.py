"""The files of the example with several hosts belong together, and its load shows what each tenant gets."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from apf_middleware.config import load_text
from tests.support import databases
from tests.support.prerequisites import require_redis
from tests.support.servers import ROOT, serve

HERE = ROOT / "examples" / "fleet"
COMPOSE = yaml.safe_load((HERE / "docker-compose.yml").read_text())["services"]


def test_compose_mounts_files_that_there_are() -> None:
    volumes = [volume.split(":")[0] for service in COMPOSE.values() for volume in service.get("volumes", ())]
    assert volumes
    assert [volume for volume in volumes if not (HERE / volume).exists()] == []


def test_images_have_versions() -> None:
    assert all(re.search(r":v?[0-9]", service["image"]) for service in COMPOSE.values())


def test_the_services_find_each_other() -> None:
    """The names in addresses are those of services."""
    store = COMPOSE["app"]["environment"]["REDIS_URL"]
    assert re.fullmatch(r"redis://(\w+):6379/0", store).group(1) in COMPOSE  # type: ignore[union-attr]
    assert "http://app:8000" in (HERE / "nginx.conf").read_text()
    [scraped] = yaml.safe_load((HERE / "prometheus.yml").read_text())["scrape_configs"]
    assert set(scraped["dns_sd_configs"][0]["names"]) <= COMPOSE.keys()
    assert COMPOSE["load"]["command"][-1] == "http://proxy"
    assert {"app", "proxy", "redis", "prometheus", "grafana", "load"} <= COMPOSE.keys()


def test_the_manifest_s_configuration_is_that_of_the_example() -> None:
    documents = list(yaml.safe_load_all((HERE / "kubernetes.yml").read_text()))
    [inside] = [one["data"]["apf.yaml"] for one in documents if one["kind"] == "ConfigMap"]
    manifest, example = load_text(inside), load_text((HERE / "apf.yaml").read_text())
    assert manifest.schemas == example.schemas
    assert manifest.levels == example.levels
    settings = manifest.server.fleet
    assert settings is not None
    services = {one["metadata"]["name"] for one in documents if one["kind"] == "Service"}
    assert settings.store == f"redis://{(services - {'shop'}).pop()}:6379/0"
    [shop] = [one for one in documents if one["kind"] == "Deployment" and one["metadata"]["name"] == "shop"]
    most = shop["spec"]["replicas"] + shop["spec"]["strategy"]["rollingUpdate"]["maxSurge"]
    assert most <= settings.fallback.members
    mounts = {mount["mountPath"] for mount in shop["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert str(Path(settings.redis.password_file).parent) in mounts


@pytest.mark.timeout(120)
def test_the_load_prints_what_each_tenant_gets() -> None:
    """On a busy machine, the first reports may lack some."""
    require_redis()
    missing = {"elephant", *(f"mouse-{number}" for number in range(5))}
    with databases.redis() as redis, serve("examples.fleet.app:app", environment={"REDIS_URL": redis.url}) as server:
        command = [sys.executable, "-m", "examples.fleet.load", server.url]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as load:
            assert load.stdout is not None
            try:
                while missing:
                    line = load.stdout.readline()
                    match = re.fullmatch(r"(\S+) +\d+ requests   median [\d.]+ s   99 % [\d.]+ s\n", line)
                    assert match or line == "\n", line
                    missing -= {match[1]} if match else set()
            finally:
                load.terminate()
