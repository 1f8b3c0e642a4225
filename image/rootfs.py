"""Assembles the image's file system: what runs, what that needs, and nothing else.

Run in the image's build, by the Python of the environment that is to be shipped. Python's standard library loses what
no service needs, every module gets its bytecode (the running image cannot write any), each program and extension brings
the shared libraries that the loader names, and Debian's records of the packages concerned come along, for scanners.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# git runs its remote helpers and, for ssh and local addresses, a shell.
PROGRAMS = ("git", "git-upload-pack", "sh", "ssh")
GIT_HELPERS = ("git", "git-remote-http", "git-remote-https")
FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/openssl.cnf",
    "/usr/lib/ssl/cert.pem",
    "/usr/lib/ssl/certs",
    "/usr/lib/ssl/openssl.cnf",
)
# Loaded by name at run time, so the loader does not tell: for the end of threads, and for names of hosts.
LIBRARIES = ("libgcc_s.so.1", "libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")

UNUSED = {
    "__pycache__",
    "config-3*",
    "dist-packages",
    "distutils",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "sitecustomize.py",
    "test",
    "tests",
    "tkinter",
    "turtledemo",
    "venv",
}
# 80 MB of one method for each route of Kubernetes, loaded by name only; the operator speaks to the API by paths.
# And what packages bring to test themselves.
UNUSED_PACKAGES = (
    "kubernetes/client/api",
    "kubernetes/aio/client/api",
    "greenlet/tests",
    "jsonschema/benchmarks",
    "jsonschema/tests",
    "sqlalchemy/testing",
    "websocket/tests",
)
# zstandard's other way into its library, for interpreters that are not this one.
UNUSED_FILES = ("zstandard/_cffi.*.so", "zstandard/backend_cffi.py")
# What extensions were compiled from: a megabyte that nothing reads any more.
UNUSED_SOURCES = ("*.cpp", "*.hpp", "*.pxd", "*.pxi", "*.pyx")
UNUSED_EXTENSIONS = ("_ctypes_test", "_test", "_tkinter", "_xxtest", "xxlimited")

ACCOUNTS = {
    "passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\n"
    "anabranch:x:65532:65532:Anabranch:/home/anabranch:/usr/sbin/nologin\n",
    "group": "root:x:0:\nanabranch:x:65532:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def main(root: Path) -> None:
    """Fills a folder that does not exist yet."""
    root.mkdir()
    # /bin, /lib and /sbin are links to those below /usr, as on every Debian: copies go by the real names.
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    copy_python(root)
    for program in PROGRAMS:
        copy(root, Path(shutil.which(program) or f"/usr/bin/{program}"))
    helpers = Path(output("git", "--exec-path").strip())
    for path in (*(helpers / name for name in GIT_HELPERS), *map(Path, FILES)):
        copy(root, path)
    copy_libraries(root)
    copy_package_records(root)
    write_accounts(root)
    compile_modules(root)
    settle_times(root)


def copy_python(root: Path) -> None:
    """The environment, the interpreter that it stands on, and the standard library."""
    copy_tree(root, Path(sys.prefix), without={"__pycache__", *UNUSED_SOURCES})
    for name in ("activate", "activate.csh", "activate.fish", "Activate.ps1"):
        (root / sys.prefix[1:] / "bin" / name).unlink(missing_ok=True)
    packages = root / sysconfig.get_path("purelib")[1:]
    for package in UNUSED_PACKAGES:
        shutil.rmtree(packages / package)
    for file in (file for pattern in UNUSED_FILES for file in packages.glob(pattern)):
        file.unlink()
    copy(root, Path(sys.base_prefix, "bin/python3"))
    for kind in ("stdlib", "platstdlib"):
        library = Path(sysconfig.get_path(kind, vars={"installed_base": sys.base_prefix, "base": sys.base_prefix}))
        copy_tree(root, library, without=UNUSED)
    for extension in root.rglob("lib-dynload/*.so"):
        if extension.name.startswith(UNUSED_EXTENSIONS):
            extension.unlink()


def copy_libraries(root: Path) -> None:
    """The shared libraries of everything that is there by now, and the loader itself."""
    wanted = {line for file in elf_files(root) for line in linked(file)}
    known = dict(cached_libraries())
    for path in (*sorted(wanted), *(known[name] for name in LIBRARIES if name in known)):
        copy(root, Path(path))
    # A library that is named by nothing but its name is found by the loader's own folders, /usr/local/lib too.
    if Path("/etc/ld.so.cache").exists():
        for file in (Path("/etc/ld.so.conf"), *sorted(Path("/etc/ld.so.conf.d").glob("*.conf"))):
            copy(root, file)
        subprocess.run(["ldconfig", "-r", root, "-X"], check=True)
        shutil.rmtree(root / "var/cache/ldconfig", ignore_errors=True)


def elf_files(root: Path) -> Iterator[Path]:
    """The programs and shared libraries below a folder, by where they came from."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield Path("/", path.relative_to(root))


def linked(file: Path) -> Iterator[str]:
    """The shared libraries of a file, as the loader finds them, except those that the environment brings itself."""
    done = subprocess.run(["ldd", file], check=False, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if "not found" in line:
            sys.exit(f"{file} needs a library that the base lacks: {line.strip()}")
        words = line.replace("=>", " ").split()
        path = next((word for word in words if word.startswith("/")), None)
        if path and not path.startswith(sys.prefix):
            yield path


def cached_libraries() -> Iterator[tuple[str, str]]:
    """Name and path of each library that the loader knows."""
    for line in output("ldconfig", "-p").splitlines()[1:]:
        name, _, path = line.strip().partition(" (")
        yield name, path.rpartition("=> ")[2]


def copy_package_records(root: Path) -> None:
    """Debian's status of the packages that files came from, so that scanners know their versions; their licences."""
    status = Path("/var/lib/dpkg/status")
    if not status.exists():
        return
    names = [f"/{path.relative_to(root)}" for path in sorted(root.rglob("*")) if not path.is_dir()]
    names = [name for name in names if not name.startswith(sys.prefix)]
    # Files may be recorded by their place from before /bin and /lib became links.
    names += [name.removeprefix("/usr") for name in names if name.startswith(("/usr/bin/", "/usr/lib/", "/usr/lib64/"))]
    done = subprocess.run(["dpkg-query", "--search", *names], check=False, capture_output=True, text=True)
    packages = {line.split(":")[0] for line in done.stdout.splitlines()}
    stanzas = [each for each in status.read_text().split("\n\n") if each.split("\n")[0][len("Package: ") :] in packages]
    record = root / "var/lib/dpkg/status"
    record.parent.mkdir(parents=True)
    record.write_text("\n\n".join(stanzas) + "\n")
    for package in sorted(packages):
        copy(root, Path(f"/usr/share/doc/{package}/copyright"))
    copy(root, Path("/etc/os-release"))


def write_accounts(root: Path) -> None:
    """The user, for what asks for a name (ssh does), and the folders that it may want."""
    for name, text in ACCOUNTS.items():
        (root / "etc" / name).write_text(text)
    (root / "home/anabranch").mkdir(parents=True)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)


def compile_modules(root: Path) -> None:
    """Bytecode that is valid whatever the time of its source: times change when an image is built."""
    for folder in (sys.prefix, sys.base_prefix):
        compiled = compileall.compile_dir(
            root / folder[1:] / "lib",
            quiet=1,
            maxlevels=20,
            stripdir=str(root),
            prependdir="/",
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        if not compiled:
            sys.exit("A module cannot be compiled.")


def settle_times(root: Path) -> None:
    """One time for every file."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    for path in root.rglob("*"):
        os.utime(path, (seconds, seconds), follow_symlinks=False)


def copy(root: Path, path: Path) -> None:
    """Copies a file or a folder; where it is a link, the link and what it leads to."""
    if not os.path.lexists(path):
        return
    place = path.parent.resolve() / path.name
    target = root / place.relative_to("/")
    if os.path.lexists(target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        target.symlink_to(path.readlink())
        followed = path.parent.resolve() / path.readlink()
        if not followed.is_dir():
            copy(root, followed)
    elif path.is_dir():
        copy_tree(root, path, without=set())
    else:
        shutil.copy2(path, target)


def copy_tree(root: Path, folder: Path, *, without: Iterable[str]) -> None:
    """Copies a folder, less the entries of some names, with links as links."""
    shutil.copytree(
        folder,
        root / folder.resolve().relative_to("/"),
        symlinks=True,
        ignore=shutil.ignore_patterns(*without),
        dirs_exist_ok=True,
    )


def output(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
