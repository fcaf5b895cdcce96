"""A disk in memory that forgets like a real one: what was not synced may be lost, torn or reordered.

``power_loss`` gives the disk as it may look after the machine died: every sector of a file holds some value
that it had since the last sync, sizes and names likewise. ``Operations`` is one process's view of it, which
can be killed, or refused, at any chosen operation.
"""

import errno
import os
import random

from cannery.backends.directory.files import Facts

SECTOR = 512


class Killed(BaseException):
    """The process died."""


class File:
    def __init__(self, number):
        self.number = number
        self.now = bytearray()
        self.durable = b""
        self.pending = []
        self.is_shared = False
        self.modified = 0
        self.locks = {}

    def write(self, data, offset):
        if len(self.now) < offset:
            self.now.extend(bytes(offset - len(self.now)))
        self.now[offset : offset + len(data)] = data
        self.pending.append((offset, bytes(data)))

    def truncate(self, size):
        if size <= len(self.now):
            del self.now[size:]
        else:
            self.now.extend(bytes(size - len(self.now)))
        self.pending.append((size, None))

    def sync(self):
        self.durable = bytes(self.now)
        self.pending = []

    def lose(self):
        """A sync failed: the kernel takes the pages for clean, and they are not on the disk."""
        self.pending = []

    def after_power_loss(self, chance, keep):
        """The content as it may be found: for each sector some version since the last sync."""
        if self.is_shared:
            return bytes(self.now) if chance.random() < 0.5 else bytes(len(self.now))
        versions = {}
        sizes = [len(self.durable)]
        size = len(self.durable)
        for offset, data in self.pending:
            if data is None:
                size = offset
                sizes.append(size)
                continue
            size = max(size, offset + len(data))
            sizes.append(size)
            for sector in range(offset // SECTOR, (offset + len(data) - 1) // SECTOR + 1):
                versions.setdefault(sector, []).append((offset, data))
        result = bytearray(self.durable)
        final = sizes[-1] if chance.random() < keep else chance.choice(sizes)
        if final > len(result):
            result.extend(bytes(final - len(result)))
        for sector, writes in versions.items():
            kept = len(writes) if chance.random() < keep else chance.randrange(len(writes) + 1)
            for offset, data in writes[:kept]:
                start = max(offset, sector * SECTOR)
                stop = min(offset + len(data), (sector + 1) * SECTOR, final)
                if start < stop:
                    result[start:stop] = data[start - offset : stop - offset]
        return bytes(result[:final])


class Disk:
    def __init__(self):
        self.names = {"": None}
        self.durable_names = {"": None}
        self.pending = []
        self.count = 0

    def new_file(self):
        self.count += 1
        return File(self.count)

    def change(self, folders, redo):
        """Note a change of names: which folders it touches, and how to do it to a table of names."""
        self.pending.append((frozenset(folders), redo))
        redo(self.names)

    def sync_folder(self, folder):
        rest = []
        for folders, redo in self.pending:
            if folder in folders:
                redo(self.durable_names)
            else:
                rest.append((folders, redo))
        self.pending = rest

    def power_loss(self, seed, keep=None):
        """The disk as it may look after the power failed."""
        chance = random.Random(seed)
        keep = chance.choice([0.0, 0.3, 0.7, 0.95, 1.0]) if keep is None else keep
        names = dict(self.durable_names)
        stopped = set()
        for folders, redo in self.pending:
            if folders & stopped or chance.random() >= keep:
                stopped |= folders
            else:
                redo(names)
        found = Disk()
        copies = {}
        for path, file in names.items():
            parent = path.rpartition("/")[0]
            if path and parent not in names:
                continue
            if file is None:
                found.names[path] = None
                continue
            if file.number not in copies:
                copy = found.new_file()
                copy.now = bytearray(file.after_power_loss(chance, keep))
                copy.durable = bytes(copy.now)
                copies[file.number] = copy
            found.names[path] = copies[file.number]
        found.durable_names = dict(found.names)
        return found

    def files(self):
        return {path: file for path, file in self.names.items() if file is not None}


class Operations:
    """The file operations of one process; ``plan(count, name)`` is asked before each that changes something."""

    root = "/simulated"

    def __init__(self, disk, plan=None):
        self.disk = disk
        self.plan = plan
        self.count = 0
        self.log = []
        self.descriptors = {}
        self.is_dead = False
        self.syncs = 0

    def die(self):
        """What the kernel does for a dead process: close everything, and let go of its locks."""
        self.is_dead = True
        for fd in list(self.descriptors):
            self.close(fd)

    def _step(self, name, half=None):
        if self.is_dead:
            raise Killed
        self.count += 1
        self.log.append(name)
        if self.plan is not None:
            try:
                self.plan(self.count, name)
            except Killed:
                if half is not None:
                    half()
                self.die()
                raise

    def _file(self, path):
        file = self.disk.names.get(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, path)
        return file

    def make_root(self):
        pass

    def open(self, path, *, create=False):
        if self.is_dead:
            raise Killed
        if path not in self.disk.names:
            folder = path.rpartition("/")[0]
            if not create or folder not in self.disk.names:
                raise FileNotFoundError(errno.ENOENT, path)
            self._step("create")
            file = self.disk.new_file()
            self.disk.change([folder], lambda names: names.__setitem__(path, file))
        self.disk.count += 1
        fd = self.disk.count
        self.descriptors[fd] = self._file(path)
        return fd

    def close(self, fd):
        file = self.descriptors.pop(fd, None)
        if file is not None:
            file.locks.pop(fd, None)

    def read(self, fd, length, offset):
        if self.is_dead:
            raise Killed
        return bytes(self.descriptors[fd].now[offset : offset + length])

    def write(self, fd, data, offset):
        file = self.descriptors[fd]
        self._step("write", lambda: file.write(data[: len(data) // 2], offset))
        file.write(data, offset)
        self.disk.count += 1
        file.modified = self.disk.count

    def size(self, fd):
        return len(self.descriptors[fd].now)

    def is_named(self, fd):
        return True

    def truncate(self, fd, size):
        file = self.descriptors[fd]
        if len(file.now) != size:
            self._step("truncate")
            file.truncate(size)

    def sync(self, fd):
        file = self.descriptors[fd]
        try:
            self._step("sync")
        except OSError:
            file.lose()
            raise
        self.syncs += 1
        file.sync()

    def sync_directory(self, path):
        self._step("sync_directory")
        self.disk.sync_folder(path)

    def sync_all(self):
        files = [file for file in self.disk.names.values() if file is not None]
        try:
            self._step("sync_all")
        except OSError:
            for file in files:
                file.lose()
            raise
        self.syncs += 1
        for file in files:
            file.sync()
        for folders, _ in list(self.disk.pending):
            for folder in folders:
                self.disk.sync_folder(folder)
        return True

    def facts(self, path):
        if path not in self.disk.names:
            return None
        file = self.disk.names[path]
        return Facts(0, 0, 0) if file is None else Facts(len(file.now), file.number, file.modified)

    def rename(self, old, new):
        self._step("rename")
        if old not in self.disk.names:
            raise FileNotFoundError(errno.ENOENT, old)

        def redo(names):
            moved = [path for path in names if path == old or path.startswith(old + "/")]
            for path in moved:
                names[new + path[len(old) :]] = names.pop(path)

        self.disk.change([old.rpartition("/")[0], new.rpartition("/")[0]], redo)

    def remove(self, path):
        if path in self.disk.names:
            self._step("remove")
            folder = path.rpartition("/")[0]
            self.disk.change([folder], lambda names: names.pop(path, None))

    def make_directory(self, path):
        if path in self.disk.names:
            return False
        self._step("make_directory")
        folder = path.rpartition("/")[0]
        self.disk.change([folder], lambda names: names.__setitem__(path, None))
        return True

    def make_filled(self, path, contents):
        if not self.make_directory(path):
            return False
        for name, data in contents.items():
            fd = self.open(f"{path}/{name}", create=True)
            try:
                self.write(fd, data, 0)
            finally:
                self.close(fd)
        return True

    def remove_directory(self, path):
        if path in self.disk.names:
            if self.names(path):
                raise OSError(errno.ENOTEMPTY, path)
            self._step("remove_directory")
            folder = path.rpartition("/")[0]
            self.disk.change([folder], lambda names: names.pop(path, None))

    def names(self, path):
        start = path + "/" if path else ""
        return [
            name[len(start) :]
            for name in self.disk.names
            if name and name.startswith(start) and "/" not in name[len(start) :]
        ]

    def folders(self, path):
        start = path + "/" if path else ""
        return [name for name in self.names(path) if self.disk.names[start + name] is None]

    def lock(self, fd, *, shared=False, wait=True):
        if self.is_dead:
            raise Killed
        file = self.descriptors[fd]
        others = [mode for other, mode in file.locks.items() if other != fd]
        if "exclusive" in others or (others and not shared):
            if wait:
                raise AssertionError("would wait for ever")
            return False
        file.locks[fd] = "shared" if shared else "exclusive"
        return True

    def unlock(self, fd):
        file = self.descriptors.get(fd)
        if file is not None:
            file.locks.pop(fd, None)

    def share(self, fd, length):
        file = self.descriptors[fd]
        file.is_shared = True
        if len(file.now) < length:
            file.now.extend(bytes(length - len(file.now)))
        return Shared(self, file)


class Shared:
    """Memory that all processes see; only a kill can come between two writes to it."""

    def __init__(self, operations, file):
        self._operations = operations
        self._file = file

    def __getitem__(self, place):
        return bytes(self._file.now[place])

    def __setitem__(self, place, data):
        self._operations._step("share")
        self._file.now[place] = data


def at(number, what=Killed):
    """A plan that fails once, at one operation."""

    def plan(count, name):
        if count == number and (what is Killed or name != "share"):
            raise what if what is Killed else OSError(what, os.strerror(what))

    return plan
