"""What an operator does: paste what is printed, reload, stop in the middle, pull the plug, start again."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cannery.storage import open_store

from .raw_servers import Raw
from .running import Running, rows, wait_for, words
from .test_contract import ask, chat
from .upstream import Upstream

CHAT = "/v1/chat/completions"


def test_the_printed_curl_command_works_as_it_is(gateway: Running) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    found = re.search(r"^curl +(curl .*?\n.*?)\n", gateway.whole_banner(), re.MULTILINE)
    assert found is not None
    done = subprocess.run(
        ["sh", "-c", found[1]], capture_output=True, text=True, check=True, timeout=30
    )
    assert json.loads(done.stdout)["choices"][0]["message"]["content"] == "echo: Hello"


@pytest.mark.parametrize(
    "name", ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"]
)
def test_each_printed_base_url_leads_to_its_models(gateway: Running, name: str) -> None:
    base = re.search(rf"{name}=http://[^/]+(\S*)", gateway.whole_banner())
    assert base is not None
    version = {"OPENAI": "", "ANTHROPIC": "/v1", "GOOGLE": "/v1beta"}[name.partition("_")[0]]
    status, _, said = ask(gateway, f"{base[1]}{version}/models")
    assert status == 200
    key = "models" if "GOOGLE" in name else "data"
    assert said[key]


def test_sighup_takes_a_good_configuration_and_leaves_a_bad_one(
    upstream: Upstream, tmp_path: Path
) -> None:
    running = Running(tmp_path, rows(upstream.url), record=False)
    try:
        assert ask(running, CHAT, chat("echo", ("boss", "x")))[0] == 400
        good = '[roles.mappings]\nboss = "user"\n' + rows(upstream.url)
        running.config.write_text(good)
        running.signal(signal.SIGHUP)
        running.wait_for_log('"reloaded"')
        broken = (
            "[roles\n",
            "colour = 'red'\n",
            "[limits]\nbody_bytes = 0\n",
            f'[keys]\nfile = "{tmp_path / "missing"}"\n',
            '[keys]\nvariables = ["NO_SUCH_KEY"]\n',
            '[server]\nhost = "0.0.0.0"\n',
            "[[upstreams]]\nname = 'a'\nurl = 'x'\n",
            '[roles.mappings]\nroot = "system"\n',
            None,
        )
        for times, text in enumerate(broken, 1):
            if text is None:
                running.config.unlink()
            else:
                running.config.write_text(text)
            running.signal(signal.SIGHUP)
            running.wait_for_log('"reload_refused"', times)
            assert ask(running, CHAT, chat("chat-model", ("boss", "x")))[0] == 200
        assert running.log.count('"reloaded"') == 1
        assert "Traceback" not in running.log
        # The command line goes before the file, also when it is read again.
        running.config.write_text("[server]\nport = 1\n" + good)
        running.signal(signal.SIGHUP)
        running.wait_for_log('"reloaded"', 2)
        assert ask(running, CHAT, chat("chat-model", ("boss", "x")))[0] == 200
    finally:
        assert running.stop() == 0


def test_a_key_that_is_not_there_is_in_the_log(tmp_path: Path) -> None:
    row = '[[upstreams]]\nname = "x"\nurl = "http://127.0.0.1:1"\nkey_variable = '
    running = Running(tmp_path, row + '["TEST_KEY", "NO_SUCH_KEY"]', record=False)
    told = '"event":"key_missing","upstream":"x","variables":["NO_SUCH_KEY"]'
    running.wait_for_log(told)
    running.config.write_text(row + '"TEST_KEY"')
    running.signal(signal.SIGHUP)
    running.wait_for_log('"event":"reloaded"')
    assert running.stop() == 0
    assert running.log.count("key_missing") == 1


def test_a_reload_while_calls_are_under_way_disturbs_none(
    upstream: Upstream, tmp_path: Path
) -> None:
    running = Running(tmp_path, rows(upstream.url), record=False)
    wrong: list[Any] = []
    is_over = threading.Event()

    def work(stream: bool) -> None:
        while not is_over.is_set():
            for model in ("chat-model", "anthropic-model"):
                status, _, said = ask(running, CHAT, chat(model, ("user", "Hi"), stream=stream))
                if status != 200 or (stream and b"[DONE]" not in said):
                    wrong.append((status, said))

    threads = [threading.Thread(target=work, args=(bool(number % 2),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for times in range(1, 11):
        running.signal(signal.SIGHUP)
        running.wait_for_log('"reloaded"', times)
    is_over.set()
    for thread in threads:
        thread.join()
    assert running.stop() == 0
    assert wrong == []


@pytest.mark.parametrize("model", ["chat-endless", "anthropic-endless"])
def test_a_stream_that_does_not_end_is_cut_when_the_gateway_stops(
    upstream: Upstream, tmp_path: Path, model: str
) -> None:
    config = "[server]\ndrain_seconds = 0.5\n" + rows(upstream.url)
    running = Running(tmp_path, config)
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    connection.request("POST", CHAT, json.dumps(chat(model, ("user", "x"), stream=True)))
    answer = connection.getresponse()
    answer.read(20)
    running.signal(signal.SIGTERM)
    said = answer.read()
    connection.close()
    assert running.stop() == 0
    last = [frame for frame in said.split(b"\n\n") if frame.strip()][-1]
    assert "shutting down" in json.loads(last.removeprefix(b"data: "))["error"]["message"]
    assert b"[DONE]" not in said
    store = open_store(str(running.store))
    (summary,) = store.list()
    assert summary.tags == ("aborted",)
    store.close()


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/embeddings"])
def test_a_call_without_an_answer_is_told_when_the_gateway_stops(tmp_path: Path, path: str) -> None:
    with Raw(lambda taken: taken.recv(1)) as silent:
        row = f'[[upstreams]]\nname = "x"\nurl = "{silent.url}"\n'
        running = Running(tmp_path, "[server]\ndrain_seconds = 0.2\n" + row)
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
        body = json.dumps({**chat("m", ("user", "x")), "max_tokens": 9})
        connection.request("POST", path, body, {"content-type": "application/json"})
        wait_for(lambda: silent.asked, "the call does not come")
        running.signal(signal.SIGTERM)
        answer = connection.getresponse()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert json.loads(answer.read())["error"]["message"] == "the gateway is shutting down"
        connection.close()
        assert running.stop() == 0
    assert '"status":503' in running.log


def test_while_it_stops_it_takes_no_calls_and_says_that_it_is_not_ready(
    upstream: Upstream, tmp_path: Path
) -> None:
    running = Running(tmp_path, rows(upstream.url), record=False)
    slow = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    slow.request("POST", CHAT, json.dumps(chat("chat-pause", ("user", "x"))))
    wait_for(lambda: running.metrics()["cannery_active_requests"], "the call does not come")
    running.signal(signal.SIGTERM)
    wait_for(lambda: ask(running, "/readyz")[0] == 503, "it is still ready")
    assert "shutting down" in ask(running, "/readyz")[2]["problems"]
    status, headers, said = ask(running, CHAT, chat("echo", ("user", "x")))
    assert (status, headers["retry-after"], said["error"]["code"]) == (503, "1", "overloaded")
    assert slow.getresponse().status == 200
    slow.close()
    assert running.stop() == 0


def test_being_told_to_stop_again_and_again_is_still_a_clean_end(tmp_path: Path) -> None:
    running = Running(tmp_path)
    while running.process.poll() is None:
        running.signal(signal.SIGTERM)
        time.sleep(0.005)
    assert running.stop() == 0


def test_pulling_the_plug_loses_nothing_that_was_filed(upstream: Upstream, tmp_path: Path) -> None:
    said: list[tuple[str, str]] = []
    named = set()
    for number in range(3):
        running = Running(tmp_path, rows(upstream.url))
        said.append(("user", f"question {number}"))
        # An upstream that answers at once would leave the store no time to look for the history.
        _, headers, _ = ask(running, CHAT, chat("chat-pause", *said))
        said.append(("assistant", f"echo: question {number}"))
        named.add(headers["x-cannery-conversation"])
        running.settle()
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
        body = chat("chat-endless", ("user", f"unfinished {number}"), stream=True)
        connection.request("POST", CHAT, json.dumps(body))
        connection.getresponse().read(20)
        running.process.kill()
        connection.close()
        assert running.stop() == -signal.SIGKILL
    assert len(named) == 1
    store = open_store(str(tmp_path / "store"))
    assert words(store.get(named.pop()).load()) == [text for _, text in said]
    assert store.verify().damages == ()
    store.close()
