"""The OpenAPI document: valid, complete, and silent about the cluster."""

import json
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.control.endpoints import ENDPOINTS
from rmqlab.cluster.control.openapi import openapi_document
from rmqlab.faults import FAULTS, fault_of
from tests.cluster.control.conftest import Api


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi_document()


def test_the_document_is_valid_openapi_3_1(document: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(document).validate()


def test_the_validator_rejects_what_is_invalid(document: dict[str, Any]) -> None:
    broken = json.loads(json.dumps(document))
    broken["paths"]["/v1/status"]["get"]["responses"] = {"200": {}}
    assert list(OpenAPIV31SpecValidator(broken).iter_errors())


def test_every_action_and_every_endpoint_is_in_the_document(document: dict[str, Any]) -> None:
    assert {f"/v1/actions/{name}" for name in ACTIONS} <= document["paths"].keys()
    operations = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert sorted(operations) == sorted(endpoint.name for endpoint in ENDPOINTS)


def test_every_kind_of_fault_has_a_schema_and_its_example_is_a_fault(document: dict[str, Any]) -> None:
    body = document["paths"]["/v1/faults"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert len(body["oneOf"]) == len(FAULTS.kinds)
    for schema, kind in zip(body["oneOf"], FAULTS.kinds, strict=True):
        (example,) = schema["examples"]
        assert type(fault_of(example)) is kind


async def test_the_document_is_served_without_a_token_and_names_no_node(api: Api) -> None:
    got = await api.ask("GET", "/openapi.json", token=None)
    assert got.status == 200
    assert got.document == openapi_document()
    spec = api.supervisor.spec
    for secret in (str(api.supervisor.directory.path), api.supervisor.namesrv_addr, f'"{spec.name}"'):
        assert secret not in got.body.decode()
