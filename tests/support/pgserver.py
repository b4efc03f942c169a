# SPDX-License-Identifier: MIT
"""PostgreSQL servers in temporary directories, and sessions on them.

A Server is a cluster of its own: its files in a short directory of their own
(a socket's path may have 107 bytes), listening on that socket and on a free
port of the loopback. It ends with the test's process, also when that is
killed. A server refuses to run as root: as root, it runs as user postgres.

A Session is a psql that is kept open, so that a test holds as many real
transactions as it needs at once: execute() waits for the answer, start() does
not, for statements that block.

fsync is off unless a test asks: a server that is killed, however rudely, loses
only what it had not yet written to the kernel, which is all these tests need.
"""
import atexit
import collections
import ctypes
import itertools
import os
import pwd
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse

DEADLINE = 60.0
# What psql reports when the connection went with the statement.
LOST_STATES = ("", "57P01", "57P02", "57P03", "08006")
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class SqlError(Exception):
    """What the server answered: its SQLSTATE and its message."""

    def __init__(self, state, message):
        super().__init__(f"{state}: {message}")
        self.state = state


class ConnectionLost(Exception):
    """psql ended: the server closed the connection, or could not be reached."""


def wait_for(condition, what, timeout=DEADLINE, every=0.01):
    """Waits until condition() is true, and returns what it returned."""
    end = time.monotonic() + timeout
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"waited {timeout:g} s in vain: {what() if callable(what) else what}")
        time.sleep(every)


def default_bin():
    """The directory of the server's programs: OUTRIDER_PG_BIN, or Debian's newest."""
    named = os.environ.get("OUTRIDER_PG_BIN")
    if named:
        return named
    root = "/usr/lib/postgresql"
    majors = sorted((int(d) for d in os.listdir(root) if d.isdigit()), reverse=True) if os.path.isdir(root) else []
    for major in majors:
        if os.path.exists(f"{root}/{major}/bin/postgres"):
            return f"{root}/{major}/bin"
    found = shutil.which("postgres")
    if found:
        return os.path.dirname(os.path.realpath(found))
    raise RuntimeError("no PostgreSQL server: install it (scripts/setup test) or set OUTRIDER_PG_BIN")


def clean_environment(**more):
    """Ours without what would make libpq talk to some other server."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    env.update(PGCONNECT_TIMEOUT="20", LC_ALL="C.UTF-8", **more)
    return env


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _die_with_parent():
    # SIGQUIT is the server's immediate shutdown.
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT, 0, 0, 0)


class Session:
    """One connection, through a psql that stays open."""

    _names = itertools.count(1)

    def __init__(self, url, options=""):
        self._mark = f"--mark-{next(Session._names)}--"
        self._lines = collections.deque()
        self._rest = b""
        self._psql = subprocess.Popen(
            ["psql", "-XqAt", "-F", "\x1f", "-P", "null=\x1d", "-v", "VERBOSITY=terse", url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=clean_environment(PGOPTIONS=options))
        os.set_blocking(self._psql.stdout.fileno(), False)
        try:
            self.pid = int(self.execute("SELECT pg_backend_pid()")[0][0])
        except BaseException:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def start(self, sql):
        """Sends a statement and does not wait for its answer: wait() does."""
        text = f"{sql.rstrip().rstrip(';')};\n\\echo {self._mark} :ERROR :SQLSTATE :LAST_ERROR_MESSAGE\n"
        try:
            self._psql.stdin.write(text.encode())
            self._psql.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise ConnectionLost("psql has ended") from None

    def wait(self, timeout=DEADLINE):
        """The rows of the oldest statement that was started and not yet waited for."""
        lines = []
        end = time.monotonic() + timeout
        mark = self._mark.encode()
        while True:
            line = self._line(end)
            if line is None:
                raise ConnectionLost("the connection was lost")
            if line.startswith(mark):
                break
            lines.append(line.decode())
        failed, state, message = (line.decode().split(" ", 3)[1:] + ["", ""])[:3]
        if failed == "true" and (state in LOST_STATES):
            raise ConnectionLost(f"{state}: {message}")
        if failed == "true":
            raise SqlError(state, message)
        return [tuple(None if v == "\x1d" else v for v in line.split("\x1f")) for line in lines]

    def _line(self, end):
        while not self._lines:
            left = end - time.monotonic()
            if left <= 0:
                raise AssertionError("a statement got no answer in time")
            if not self._read(left):
                return None
        return self._lines.popleft()

    def _read(self, timeout):
        """Takes in what psql says, if it does within the time; False at its end."""
        if select.select([self._psql.stdout], [], [], timeout)[0]:
            chunk = os.read(self._psql.stdout.fileno(), 1 << 20)
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._lines.extend(lines)
            return bool(chunk)
        return True

    def execute(self, sql, timeout=DEADLINE):
        self.start(sql)
        return self.wait(timeout)

    def value(self, sql):
        """The first column of the first row."""
        return self.execute(sql)[0][0]

    def begin(self):
        self.execute("BEGIN")

    def commit(self):
        self.execute("COMMIT")

    def rollback(self):
        self.execute("ROLLBACK")

    def is_answered(self):
        """Whether a started statement has come to its end."""
        self._read(0)
        return any(line.startswith(self._mark.encode()) for line in self._lines)

    def is_alive(self):
        """Whether the connection still answers; one that does not is closed."""
        try:
            self.execute("SELECT 1")
            return True
        except (ConnectionLost, SqlError):
            self.kill()
            return False

    def kill(self):
        """Ends psql without a farewell, as a client that crashes."""
        self._psql.kill()
        self.close()

    def close(self):
        try:
            self._psql.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._psql.wait(0.5)
        except subprocess.TimeoutExpired:
            self._psql.kill()
            self._psql.wait()
        self._psql.stdout.close()


class Server:
    """A cluster with its server. Use as a context, or call remove() at the end."""

    def __init__(self, bin_dir=None, **settings):
        self.bin = bin_dir or default_bin()
        self.user = "postgres"
        self._as = {}
        self.root = tempfile.mkdtemp(prefix="orpg", dir="/tmp")
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self.root, account.pw_uid, account.pw_gid)
            self._as = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        os.chmod(self.root, 0o755)
        self.data = os.path.join(self.root, "data")
        self.log = os.path.join(self.root, "log")
        self.port = free_port()
        self.settings = {
            "wal_level": "replica", "fsync": "off", "max_prepared_transactions": "20",
            "max_connections": "60", "shared_buffers": "32MB", "max_wal_size": "256MB",
            "autovacuum_naptime": "5s", "log_min_messages": "warning", "log_line_prefix": "'%m [%p] %u@%d '",
            "listen_addresses": "'127.0.0.1'", "unix_socket_directories": f"'{self.root}'",
            "timezone": "'UTC'", "log_timezone": "'UTC'", "restart_after_crash": "on",
        }
        self.settings.update({k: str(v) for k, v in settings.items()})
        self._process = None
        self._kept = {}
        self._kept_lock = threading.Lock()
        self._databases = itertools.count(1)
        atexit.register(self.remove)

    def __enter__(self):
        try:
            self.initialise()
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *unused):
        self.remove()

    @property
    def version(self):
        text = subprocess.run([os.path.join(self.bin, "postgres"), "--version"], check=True,
                              capture_output=True, text=True).stdout
        return int(re.search(r"\b(\d+)(\.\d+)?", text).group(1))

    # The cluster

    def _run(self, program, *arguments, check=True, timeout=120):
        """One of the server's programs, as the server's user."""
        path = os.path.join(self.bin, program)
        if not os.path.exists(path):
            path = shutil.which(program) or path
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=timeout,
                              cwd=self.root, env=clean_environment(), **self._as)
        if check and done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stderr.strip()}")
        return done

    def initialise(self):
        self._run("initdb", "-D", self.data, "--no-sync", "-E", "UTF8", "--locale=C", "-A", "trust",
                  "-U", self.user)
        self._write_settings()

    def _write_settings(self):
        with open(os.path.join(self.data, "postgresql.auto.conf"), "w", encoding="utf-8") as f:
            for name, value in self.settings.items():
                f.write(f"{name} = {value}\n")
            f.write(f"port = {self.port}\n")

    def configure(self, **settings):
        """Changes settings; those that need a restart take effect at the next one."""
        self.settings.update({k: str(v) for k, v in settings.items()})
        self._write_settings()
        if self.is_running():
            os.kill(self._process.pid, signal.SIGHUP)

    def is_running(self):
        return self._process is not None and self._process.poll() is None

    def _state(self):
        try:
            with open(os.path.join(self.data, "postmaster.pid"), encoding="utf-8") as f:
                lines = f.read().split("\n")
        except OSError:
            return ""
        if not self._process or lines[0] != str(self._process.pid) or len(lines) < 8:
            return ""
        return lines[7].strip()

    def start(self, wait=True):
        log = open(self.log, "ab")
        with log:
            self._process = subprocess.Popen(
                [os.path.join(self.bin, "postgres"), "-D", self.data], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd=self.root, env=clean_environment(),
                preexec_fn=_die_with_parent, start_new_session=True, **self._as)
        if wait:
            self.wait_ready()

    def wait_ready(self):
        def is_ready():
            if not self.is_running():
                raise RuntimeError("the server did not start:\n" + self.log_tail())
            return self._state() in ("ready", "standby")
        wait_for(is_ready, lambda: "the server to accept connections:\n" + self.log_tail())

    def log_tail(self, lines=20):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return "".join(f.readlines()[-lines:])

    def stop(self, mode="fast"):
        """smart waits for sessions, fast ends them, immediate is a crash."""
        self.forget()
        if self.is_running():
            signals = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
            self._process.send_signal(signals[mode])
            self._process.wait(DEADLINE)
        self._process = None

    def crash(self):
        """SIGKILL to the postmaster; its children notice and go."""
        self.forget()
        self._process.kill()
        self._process.wait()
        self._process = None
        # A new postmaster refuses while an old child still uses the shared memory.
        wait_for(lambda: not self._children(), "the crashed server's processes to end")

    def _children(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/cwd") == self.data:
                    found.append(int(pid))
            except OSError:
                continue
        return found

    def restart(self, mode="fast"):
        self.stop(mode)
        self.start()

    def remove(self):
        if self.is_running():
            self.stop("immediate")
        shutil.rmtree(self.root, ignore_errors=True)
        atexit.unregister(self.remove)

    def copy_data(self, target):
        """A copy of the files, of a server that is stopped (cleanly or not)."""
        assert not self.is_running()
        subprocess.run(["cp", "-a", self.data, target], check=True)

    def restore_data(self, source):
        assert not self.is_running()
        shutil.rmtree(self.data)
        subprocess.run(["cp", "-a", source, self.data], check=True)

    # Standbys

    def standby(self, **settings):
        """A streaming standby of this server, started. The caller removes it."""
        other = Server(self.bin, **{**self.settings, **settings})
        other.settings["unix_socket_directories"] = f"'{other.root}'"
        try:
            other._run("pg_basebackup", "-D", other.data, "-h", self.root, "-p", str(self.port),
                       "-U", self.user, "-c", "fast", "--no-sync", "-X", "stream")
            other.settings["primary_conninfo"] = f"'host={self.root} port={self.port} user={self.user}'"
            other._write_settings()
            with open(os.path.join(other.data, "standby.signal"), "w", encoding="utf-8"):
                pass
            if other._as:
                os.chown(os.path.join(other.data, "standby.signal"), other._as["user"], other._as["group"])
            other.start()
        except BaseException:
            other.remove()
            raise
        return other

    def promote(self):
        self.query("SELECT pg_promote(true, 60)")
        wait_for(lambda: self.query("SELECT pg_is_in_recovery()") == [("f",)], "the standby to be promoted")

    def take_port_of(self, other):
        """Listens where the other one did: what a failed-over address does."""
        self.stop()
        self.port = other.port
        self._write_settings()
        self.start()

    # Connections

    def url(self, database="postgres", user=None, port=None, tcp=False, **parameters):
        """A URL by the socket, or by the loopback where it is asked for."""
        host = "127.0.0.1" if tcp or port else urllib.parse.quote(self.root, safe="")
        query = urllib.parse.urlencode(parameters, quote_via=urllib.parse.quote)
        return (f"postgresql://{user or self.user}@{host}:{port or self.port}/{database}"
                + (f"?{query}" if query else ""))

    def session(self, database="postgres", user=None, options=""):
        return Session(self.url(database, user), options)

    def query(self, sql, database="postgres", user=None):
        """One statement outside of any transaction; its rows. The connection is kept for the next one."""
        with self._kept_lock:
            s = self._kept.pop((database, user), None)
            if s is None or not s.is_alive():
                s = self.session(database, user)
            try:
                rows = s.execute(sql)
            except SqlError:
                self._kept[database, user] = s
                raise
            except BaseException:
                s.kill()
                raise
            self._kept[database, user] = s
            return rows

    def forget(self, database=None):
        """Ends the connections that are kept, to one database or to all."""
        with self._kept_lock:
            for key in [k for k in self._kept if database in (None, k[0])]:
                self._kept.pop(key).kill()

    def script(self, text, database="postgres", user=None):
        """A script for psql, which stops at the first error. Its output."""
        done = subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", self.url(database, user)], input=text,
                              capture_output=True, text=True, env=clean_environment(), timeout=300)
        if done.returncode != 0:
            raise SqlError("", done.stderr.strip())
        return done.stdout

    def create_database(self, template=None):
        """A new database; its name."""
        name = f"t{next(self._databases)}"
        if template:
            self.forget(template)
        self.query(f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else ""))
        return name

    def dump(self, database, *options):
        done = subprocess.run(["pg_dump", *options, self.url(database)], capture_output=True, text=True,
                              env=clean_environment(), timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"pg_dump failed: {done.stderr.strip()}")
        return done.stdout


class Proxy:
    """A TCP proxy that can be cruel: cut connections, freeze them, or cut each
    one after so many packets from the client."""

    def __init__(self, port):
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._pairs = []
        self._ended = {}
        self._thawed = threading.Event()
        self._thawed.set()
        self._closed = False
        self.refuse = False
        self.cut_after = 0   # packets from the client; 0: never
        self.freeze_behind = None  # what a client sends last before all connections freeze
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuse:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            for s in (client, server):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self.connections += 1
                self._pairs.append((client, server))
            threading.Thread(target=self._pump, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, False), daemon=True).start()

    def _pump(self, source, target, from_client):
        packets = 0
        limit = self.cut_after
        try:
            while True:
                data = source.recv(1 << 16)
                self._thawed.wait()
                packets += 1
                if not data or (from_client and limit and packets > limit):
                    break
                if from_client and self.freeze_behind is not None and self.freeze_behind in data:
                    self.freeze_behind = None
                    self.freeze()
                target.sendall(data)
        except OSError:
            pass
        self._end(source, target)

    def _end(self, *pair):
        """Ends both ways; the second of the two pumps closes."""
        with self._lock:
            self._ended[pair[0]] = self._ended.get(pair[0], 0) + 1
            self._ended[pair[1]] = self._ended.get(pair[1], 0) + 1
            is_last = self._ended[pair[0]] == 2
        for s in pair:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            if is_last:
                s.close()
                self._ended.pop(s)

    def freeze(self):
        self._thawed.clear()

    def thaw(self):
        self._thawed.set()

    def cut(self):
        """Resets every connection there is."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for s in pair:
                try:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self.thaw()
        self._listener.close()
        self.cut()
