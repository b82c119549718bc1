"""What Python programs do every day. Prints one line per subject, the same on every run."""

import asyncio
import concurrent.futures
import fcntl
import mmap
import multiprocessing
import os
import pty
import resource
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import termios
import threading
import time


def square(number):
    return number * number


def add_in_shared_memory(value):
    with value.get_lock():
        value.value += 1


def threads():
    lock, found = threading.Lock(), []

    def work(number):
        with lock:
            found.append(number)

    started = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return sorted(found), sum(pool.map(square, range(10)))


def processes():
    results = []
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            results.append(pool.map(square, range(4)))
        value = context.Value("i", 0)
        children = [context.Process(target=add_in_shared_memory, args=(value,)) for _ in range(2)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        results.append((value.value, [child.exitcode for child in children]))
    return results


def subprocesses():
    pipeline = "sort | uniq -c | tr -s ' '"
    piped = subprocess.run(pipeline, shell=True, input=b"b\na\nb\n", capture_output=True)
    failed = subprocess.run(["false"]).returncode
    killed = subprocess.Popen(["sleep", "60"], start_new_session=True)
    os.killpg(killed.pid, signal.SIGKILL)
    try:
        subprocess.run(["sleep", "60"], timeout=0.01)
    except subprocess.TimeoutExpired:
        failed += 10
    child = os.posix_spawnp("true", ["true"], os.environ)
    return piped.stdout, failed, killed.wait(), os.waitpid(child, 0)[1]


async def event_loop():
    async def answer(reader, writer):
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    reader, writer = await asyncio.open_connection("localhost", port)
    writer.write(b"hello\n")
    reply = await reader.readline()
    writer.close()
    server.close()
    child = await asyncio.create_subprocess_exec("echo", "child", stdout=subprocess.PIPE)
    output, _ = await child.communicate()
    in_thread = await asyncio.to_thread(square, 7)
    return reply, output, child.returncode, in_thread


def sockets():
    results = []
    addresses = [(socket.AF_INET, "127.0.0.1")]
    if os.path.exists("/proc/net/if_inet6") and open("/proc/net/if_inet6").read():
        addresses.append((socket.AF_INET6, "::1"))
    for family, address in addresses:
        with socket.socket(family) as listener:
            listener.bind((address, 0))
            listener.listen()
            with socket.create_connection(listener.getsockname()[:2]) as client:
                served, _ = listener.accept()
                client.sendall(b"x")
                results.append(served.recv(1))
                served.close()
    with socket.socket(type=socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            sender.sendto(b"datagram", receiver.getsockname())
        results.append(receiver.recv(20))
    one, other = socket.socketpair()
    socket.send_fds(one, [b"descriptor"], [1])
    message, descriptors, _, _ = socket.recv_fds(other, 20, 1)
    results.append((message, len(descriptors)))
    with tempfile.TemporaryDirectory() as directory:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(directory + "/socket")
            listener.listen()
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(directory + "/socket")
    found = {entry[4][0] for entry in socket.getaddrinfo("localhost", 80)}
    results.append(bool(found & {"127.0.0.1", "::1"}))
    return results


def files():
    with tempfile.TemporaryDirectory() as directory:
        path = directory + "/file"
        with open(path, "w+b") as file:
            file.write(b"0123456789")
            file.flush()
            fcntl.flock(file, fcntl.LOCK_EX)
            os.posix_fallocate(file.fileno(), 0, 4096)
            with mmap.mmap(file.fileno(), 0) as mapped:
                mapped[0:2] = b"ab"
                mapped.flush()
            os.fsync(file.fileno())
        shutil.copy2(path, path + ".copy")
        os.link(path, path + ".link")
        os.symlink("file", path + ".symlink")
        os.rename(path + ".copy", path + ".moved")
        os.chmod(path, 0o640)
        os.mkfifo(path + ".fifo")
        os.truncate(path, 4)
        os.utime(path, (1, 2))
        listed = sorted(os.listdir(directory))
        with tempfile.TemporaryFile(dir=directory) as unnamed:
            unnamed.write(b"x")
        status = os.stat(path)
        anonymous = os.memfd_create("anonymous")
        os.write(anonymous, b"x")
        read = open(path + ".symlink", "rb").read()
        return listed, oct(status.st_mode), status.st_mtime, status.st_nlink, read


def database():
    with tempfile.TemporaryDirectory() as directory:
        connection = sqlite3.connect(directory + "/base.sqlite")
        mode = connection.execute("pragma journal_mode=wal").fetchone()
        with connection:
            connection.execute("create table t (a)")
            connection.executemany("insert into t values (?)", [(n,) for n in range(100)])
        return mode, connection.execute("select sum(a) from t").fetchone()


def terminal():
    child, descriptor = pty.fork()
    if child == 0:
        os.execvp("bash", ["bash", "-c", "tty >/dev/null && stty size && echo in-terminal"])
    termios.tcgetattr(descriptor)
    output = b""
    try:
        while chunk := os.read(descriptor, 100):
            output += chunk
    except OSError:
        pass
    return output, os.waitpid(child, 0)[1]


def signals_and_limits():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    got = signal.sigwait([signal.SIGALRM]).name
    poller = select.epoll()
    reading, writing = os.pipe()
    poller.register(reading, select.EPOLLIN)
    os.write(writing, b"x")
    events = len(poller.poll(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.nice(1)
    pidfd = os.pidfd_open(os.getpid())
    signal.pidfd_send_signal(pidfd, 0)
    time.sleep(0.001)
    return got, events, len(os.urandom(8)), os.uname().sysname


def main():
    subjects = [threads, processes, subprocesses, sockets, files, database, terminal]
    for subject in [*subjects, signals_and_limits]:
        print(subject.__name__, subject())
    print("event_loop", asyncio.run(event_loop()))
    print("done", file=sys.stderr)


if __name__ == "__main__":
    main()
