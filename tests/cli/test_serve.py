"""``cannery serve``: the gateway comes up, answers and goes down."""

import json
import re
import signal
import urllib.request

import pytest

pytest.importorskip("httptools")


def test_gateway_answers_and_stops(run, tmp_path):
    process = run.start("serve", "--port", "0", "--store", tmp_path / "store", "--quiet")
    try:
        line = process.stdout.readline().decode()
        (base,) = re.findall(r"http://\S+", line)
        body = {"model": "echo", "messages": [{"role": "user", "content": "Hello"}]}
        asked = urllib.request.Request(  # noqa: S310 - our own gateway
            f"{base}/v1/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=20) as reply:  # noqa: S310 - our own gateway
            answer = json.load(reply)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert "Hello" in answer["choices"][0]["message"]["content"]
    assert process.returncode == 0
    assert len(run("list", "--store", tmp_path / "store", "--json").json) == 1


def test_wrong_configuration_is_misuse(run, tmp_path):
    (tmp_path / "gateway.toml").write_text("[server]\nport = 'many'\n")
    ran = run("serve", "--config", "gateway.toml")

    assert ran.code == 2
    assert "line 2" in ran.err
