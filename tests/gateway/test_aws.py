"""Clients of AWS: the SDK for JavaScript over HTTP/2, and signatures of callers."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import botocore.auth
import botocore.config
import botocore.exceptions
import httpx
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from .running import Running
from .test_clients import OLD_FOLDER, UPSTREAMS, expected, jobs_of
from .upstream import Upstream

NODE = OLD_FOLDER / "node"
PROFILE = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.x-1:0"
HI: Any = [{"role": "user", "content": [{"text": "Hi"}]}]


def run_node(url: str, jobs: list[tuple[str, str]], name: str, secret: str) -> Any:
    if shutil.which("node") is None or not (NODE / "node_modules" / "@aws-sdk").is_dir():
        pytest.skip("needs node and its packages: scripts/e2e_clients.py installs them")
    script = NODE / "aws.mjs"
    script.write_text((Path(__file__).parent / "aws.mjs").read_text())
    done = subprocess.run(
        ["node", str(script), url, json.dumps(jobs), name, secret],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_the_sdk_for_javascript(gateway: Running) -> None:
    jobs = [job for through in UPSTREAMS for job in jobs_of(through)]
    told = run_node(gateway.url, jobs, "any", "key")
    for (scenario, model), said in zip(jobs, told, strict=True):
        expected(scenario, model, said, "bedrock")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("locked")
    (folder / "keys").write_text("alice: made-up-secret\nother-key\n")
    running = Running(folder, f'[keys]\nfile = "{folder / "keys"}"\n', record=False)
    yield running
    assert running.stop() == 0


def client(url: str, name: str, secret: str) -> Any:
    return boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="eu-central-1",
        aws_access_key_id=name,
        aws_secret_access_key=secret,
        config=botocore.config.Config(retries={"total_max_attempts": 1}),
    )


@pytest.mark.parametrize("model", ["echo", PROFILE])
@pytest.mark.parametrize("prefix", ["", "/bedrock"])
def test_a_signature_opens_the_gateway(locked: Running, model: str, prefix: str) -> None:
    answer = client(locked.url + prefix, "alice", "made-up-secret").converse(
        modelId=model, messages=HI
    )
    assert answer["output"]["message"]["content"] == [{"text": "echo: Hi"}]
    assert "made-up-secret" not in locked.log


def test_a_signature_opens_the_gateway_over_http2(locked: Running) -> None:
    jobs = [("plain", "echo"), ("streamed", PROFILE)]
    said = run_node(locked.url, jobs, "alice", "made-up-secret")
    assert [each["text"] for each in said] == ["echo: Hi", "echo: one two three"]


@pytest.mark.parametrize("name, secret", [("alice", "wrong"), ("bob", "made-up-secret")])
def test_a_wrong_signature_is_refused(locked: Running, name: str, secret: str) -> None:
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        client(locked.url, name, secret).converse(modelId="echo", messages=HI)
    assert refused.value.response["Error"]["Code"] == "UnrecognizedClientException"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 401


def test_a_signed_call_that_is_no_conversation_is_read_once(locked: Running) -> None:
    body = json.dumps({"model": "echo", "messages": [{"role": "user", "content": "Hi"}]}).encode()
    url = f"{locked.url}/v1/messages/count_tokens"
    request = AWSRequest("POST", url, data=body, headers={"content-type": "application/json"})
    key = Credentials("alice", "made-up-secret")
    botocore.auth.SigV4Auth(key, "bedrock", "us-east-1").add_auth(request)
    told = httpx.post(url, content=body, headers=dict(request.headers.items()), timeout=10)
    assert told.status_code == 200, told.text
    assert told.json()["input_tokens"] > 0


@pytest.mark.parametrize("model, counted", [("echo", None), ("chat-m", None), ("bedrock-m", 42)])
def test_tokens_are_counted(
    gateway: Running, upstream: Upstream, model: str, counted: int | None
) -> None:
    asked = {"converse": {"messages": HI, "system": [{"text": "Be brief."}]}}
    told = client(gateway.url, "any", "key").count_tokens(modelId=model, input=asked)
    assert told["inputTokens"] == counted if counted else told["inputTokens"] > 0
    if counted:
        assert json.loads(upstream.seen[-1].body) == {"input": asked}


def test_what_cannot_be_counted_or_invoked_is_refused_in_the_words_of_aws(gateway: Running) -> None:
    made = client(gateway.url, "any", "key")
    with pytest.raises(botocore.exceptions.ClientError, match=r"input\.converse: is required"):
        made.count_tokens(modelId="echo", input={"invokeModel": {"body": b"{}"}})
    with pytest.raises(
        botocore.exceptions.ClientError, match="there is nothing at POST"
    ) as refused:
        made.apply_guardrail(
            guardrailIdentifier="g",
            guardrailVersion="1",
            source="INPUT",
            content=[{"text": {"text": "Hi"}}],
        )
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def _refused(made: Any) -> None:
    with pytest.raises(botocore.exceptions.ClientError, match="signature"):
        made.converse(modelId="echo", messages=HI)


def test_another_body_than_the_signed_one_is_refused(locked: Running) -> None:
    made = client(locked.url, "alice", "made-up-secret")

    def change(request: Any, **_: Any) -> None:
        request.body = request.body.replace(b"Hi", b"Ho")

    made.meta.events.register("before-send.bedrock-runtime.Converse", change)
    _refused(made)


def test_a_path_to_another_model_than_the_signed_one_is_refused(locked: Running) -> None:
    made = client(locked.url, "alice", "made-up-secret")

    def change(request: Any, **_: Any) -> None:
        request.url = request.url.replace("/echo/", "/echo-2/")

    made.meta.events.register("before-send.bedrock-runtime.Converse", change)
    _refused(made)


def test_an_old_signature_is_refused(locked: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    old = datetime.now(UTC) - timedelta(hours=1)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda **_: old.replace(tzinfo=None))
    _refused(client(locked.url, "alice", "made-up-secret"))
