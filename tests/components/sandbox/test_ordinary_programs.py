"""What an ordinary program does with the standard library, it does in a box: the system call filter is not in its way."""

from textwrap import dedent

import pytest

from components.sandbox.pool import BoxPool
from components.schema import Limits

PROGRAMS = {
    "processes": """
        import asyncio, multiprocessing, os, signal, subprocess
        command = ["/usr/bin/python3", "-c", "print(2)"]
        assert subprocess.check_output(command, start_new_session=True, pipesize=65536) == b"2\\n"
        sleeping = subprocess.Popen(["/usr/bin/python3", "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        sleeping.terminate()
        assert sleeping.wait() == -15
        sleeping.stdin.close()
        async def ask():
            started = await asyncio.create_subprocess_exec("/usr/bin/python3", "-c", "print(3)", stdout=subprocess.PIPE)
            return (await started.communicate())[0]
        assert asyncio.run(ask()) == b"3\\n"
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=theirs.send, args=(5,))
        child.start()
        assert ours.recv() == 5
        child.join()
        spawned = os.posix_spawn("/usr/bin/python3", ["python3", "-c", "1"], {})
        assert os.waitid(os.P_PIDFD, os.pidfd_open(spawned), os.WEXITED).si_status == 0
        """,
    "threads": """
        import concurrent.futures, queue, threading, time
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert list(pool.map(abs, range(9))) == list(range(9))
        barrier, event = threading.Barrier(3), threading.Event()
        threads = [threading.Thread(target=barrier.wait, name="a name") for _ in range(2)]
        for each in threads: each.start()
        barrier.wait()
        threading.Timer(0.01, event.set).start()
        assert event.wait(5)
        """,
    "databases": """
        import dbm.dumb, shelve, sqlite3
        for mode in ("delete", "wal", "memory", "truncate"):
            one = sqlite3.connect(mode + ".db")
            one.execute(f"pragma journal_mode={mode}")
            one.execute("create table numbers(number)")
            one.executemany("insert into numbers values(?)", [(i,) for i in range(100)])
            one.commit()
            assert sqlite3.connect(mode + ".db").execute("select sum(number) from numbers").fetchone() == (4950,)
            one.execute("vacuum")
        with shelve.open("shelf") as shelf: shelf["a"] = 1
        """,
    "files": """
        import fcntl, glob, mmap, os, pathlib, shutil, stat, tarfile, tempfile, zipfile
        os.makedirs("a/b"); pathlib.Path("a/c").write_text("x" * 5000)
        shutil.copytree("a", "d"); shutil.copy2("a/c", "e"); shutil.move("e", "f"); shutil.rmtree("d")
        os.symlink("f", "g"); os.link("f", "h"); os.chmod("f", 0o600); os.utime("f"); os.rename("h", "i"); os.mkfifo("j")
        os.chown("f", os.getuid(), os.getgid())
        shutil.make_archive("k", "gztar", "a"); shutil.unpack_archive("k.tar.gz", "l")
        with open("f", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[:1] = b"y"; mapped.flush(); os.fsync(file.fileno()); os.posix_fallocate(file.fileno(), 0, 6000)
            fcntl.lockf(file, fcntl.LOCK_EX); os.truncate("f", 10)
            with open("m", "wb") as copy: os.sendfile(copy.fileno(), file.fileno(), 0, 10)
        with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile(), tempfile.TemporaryFile(): os.chdir(folder)
        os.chdir("/tmp"); os.listxattr("f"); os.statvfs("."); shutil.disk_usage("."); list(os.walk("/tmp")); os.access("f", 4)
        assert pathlib.Path("l/c").stat().st_size == 5000 and pathlib.Path("m").read_bytes() == b"y" + b"x" * 9
        """,
    "sockets": """
        import asyncio, os, select, selectors, socket, socketserver, threading
        class Echo(socketserver.StreamRequestHandler):
            def handle(self): self.wfile.write(self.rfile.readline())
        with socketserver.ThreadingUnixStreamServer("echo.sock", Echo) as server:
            threading.Thread(target=server.serve_forever).start()
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(5); client.connect("echo.sock"); client.sendall(b"hi\\n")
                assert client.recv(9) == b"hi\\n"
            server.shutdown()
        async def serve():
            server = await asyncio.start_unix_server(lambda reader, writer: writer.close(), "other.sock")
            reader, writer = await asyncio.open_unix_connection("other.sock")
            assert await reader.read() == b""
            writer.close(); server.close()
        asyncio.run(serve())
        one, other = socket.socketpair()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096); one.setblocking(False); socket.send_fds(one, [b"x"], [0])
        assert len(socket.recv_fds(other, 1, 1)[1]) == 1
        with selectors.DefaultSelector() as selector:
            selector.register(one, selectors.EVENT_WRITE); assert selector.select(1)
        """,
    "signals and the rest": """
        import ctypes, decimal, errno, faulthandler, getpass, hashlib, os, platform, resource, shutil, signal, ssl
        import termios, time, uuid
        signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]); os.kill(os.getpid(), signal.SIGUSR2)
        assert signal.sigtimedwait([signal.SIGUSR2], 5).si_signo == signal.SIGUSR2
        faulthandler.enable(); faulthandler.dump_traceback_later(60); faulthandler.cancel_dump_traceback_later()
        os.getloadavg(); os.times(); os.cpu_count(); os.sched_getaffinity(0); os.getpriority(os.PRIO_PROCESS, 0); os.getgroups()
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200)); resource.getrusage(resource.RUSAGE_CHILDREN)
        uuid.uuid1(); platform.platform(); ssl.create_default_context(); shutil.get_terminal_size(); time.thread_time()
        assert getpass.getuser() == "nobody" and ctypes.CDLL(None).getpid() == os.getpid() and not os.isatty(0)
        try: termios.tcgetattr(0)
        except termios.error as error: assert error.args[0] == errno.ENOTTY
        """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_ordinary_program_meets_no_refusal(bubblewrap_pool: BoxPool, name: str) -> None:
    source = dedent(PROGRAMS[name]) + "\nprint('done')"
    result = bubblewrap_pool.run(source, limits=Limits(wall_seconds=60.0, cpu_seconds=10.0))
    assert (result.status, result.stdout) == ("ok", "done\n"), result
