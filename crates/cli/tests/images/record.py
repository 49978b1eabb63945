#!/usr/bin/env python3
"""Makes the fixtures of these tests anew, and records what cuobjdump says of them.

    tests/images/record.py CUDA NVFATBIN_13 PTXAS_12 NVFATBIN_12

CUDA         folder of a CUDA toolkit 13.5: bin/nvcc, ptxas, fatbinary, cuobjdump
NVFATBIN_13  libnvfatbin.so.13 of 13.5 (PyPI: nvidia-nvfatbin)
PTXAS_12     ptxas of 12.9 (PyPI: nvidia-cuda-nvcc-cu12)
NVFATBIN_12  libnvfatbin.so.12 of 12.9 (PyPI: nvidia-nvfatbin-cu12)

Needs gcc, ar and xz too.
"""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLE = os.path.join(HERE, "../../ptx-samples/reduction.ptx")
cuda, nvfatbin_13, ptxas_12, nvfatbin_12 = map(os.path.abspath, sys.argv[1:])
fixtures = os.path.join(HERE, "fixtures")


def tool(name, *arguments):
    path = os.path.join(cuda, "bin", name)
    environment = dict(os.environ, PATH=f"{cuda}/bin:{os.environ['PATH']}")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{name} {arguments}: {done.stdout}{done.stderr}")
    return done.stdout


def targets(ptxas):
    """Every real architecture that a ptxas knows: 75, 90a, 100f …"""
    text = subprocess.run([ptxas, "--help"], capture_output=True, text=True).stdout
    return sorted(set(re.findall(r"'sm_(\d+[af]?)'", text)), key=lambda t: (int(t.strip("af")), t))


def sample(target, version):
    """The sample for another target, in a file."""
    with open(SAMPLE) as file:
        text = file.read()
    # nvFatbin takes a .version out that comes first.
    text = text[text.index(".version") :]
    text = text.replace(".target sm_50", f".target sm_{target}")
    text = text.replace(".version 6.0", f".version {version}")
    with open(f"{target}.{version}.ptx", "w") as file:
        file.write(text)
    return f"{target}.{version}.ptx"


def assembled(ptxas, target, version):
    out = f"{target}.{version}.cubin"
    subprocess.run([ptxas, f"-arch=sm_{target}", "-o", out, sample(target, version)], check=True)
    return out


def nvfatbin(library, out, options, images):
    """What nvFatbin makes of (kind, target, file)."""
    library = ctypes.CDLL(library)

    def check(code):
        if code != 0:
            sys.exit(f"nvFatbin: {code}")

    handle = ctypes.c_void_p()
    options = [option.encode() for option in options]
    array = (ctypes.c_char_p * len(options))(*options)
    check(library.nvFatbinCreate(ctypes.byref(handle), array, len(options)))
    for kind, target, path in images:
        with open(path, "rb") as file:
            data = file.read()
        if kind == "ptx":
            data += b"\0"
            size = ctypes.c_size_t(len(data))
            check(library.nvFatbinAddPTX(handle, data, size, target.encode(), b"reduction.cu", b"-O2"))
        else:
            size = ctypes.c_size_t(len(data))
            check(library.nvFatbinAddCubin(handle, data, size, target.encode(), None))
    size = ctypes.c_size_t()
    check(library.nvFatbinSize(handle, ctypes.byref(size)))
    data = ctypes.create_string_buffer(size.value)
    check(library.nvFatbinGet(handle, data))
    with open(os.path.join(fixtures, out), "wb") as file:
        file.write(data.raw)


def make():
    ptxas = os.path.join(cuda, "bin", "ptxas")
    new = targets(ptxas)
    images = []
    for target in new:
        cubin = assembled(ptxas, target, "9.5")
        images += [f"--image3=kind=elf,sm={target},file={cubin}"]
        images += [f"--image3=kind=ptx,sm={target},file={sample(target, '9.5')}"]
    fatbin = lambda name, *arguments: tool(
        "fatbinary", "-64", f"--create={fixtures}/{name}", *arguments
    )
    fatbin("every-zstd.fatbin", "--compress-all", *images)
    fatbin("every-lz4.fatbin", "--compress-all", "--compress-mode=speed", *images)
    some = [i for i in images if re.search(r"sm=(75|90a|100f|103),", i)]
    fatbin("unpacked.fatbin", "--compress-mode=none", "--ident=reduction.cu", *some)
    fatbin("blocks.fatbin", "--compress-all", "--concat", *some)
    named = [i for i in images if re.search(r"sm=(75|80|90),", i)]
    fatbin("blocks-named.fatbin", "--compress-all", "--concat", "--ident=reduction.cu", *named)

    old = targets(ptxas_12)
    nvfatbin(
        nvfatbin_12,
        "nvfatbin-12.fatbin",
        ["-64", "-host=linux", "-compress-all"],
        [("elf", t, assembled(ptxas_12, t, "8.8")) for t in old]
        + [("ptx", t, sample(t, "8.8")) for t in old if t not in ("100", "101")],
    )
    nvfatbin(
        nvfatbin_13,
        "nvfatbin-13.fatbin",
        ["-64", "-host=linux"],
        [("ptx", t, sample(t, "9.5")) for t in new]
        + [("elf", t, assembled(ptxas, t, "9.5")) for t in ("80", "100a")],
    )

    source = os.path.join(HERE, "kernels.cu")
    shutil.copy(source, "kernels.cu")
    code = lambda real, virtual: [f"-gencode=arch={virtual},code={real}"]
    default = code("sm_80", "compute_80") + code("sm_90", "compute_90") + code("[sm_100f,compute_100f]", "compute_100f")
    tool("nvcc", "-fatbin", "-o", f"{fixtures}/kernels.fatbin", "kernels.cu", *default)
    tool("nvcc", "-fatbin", "-G", "-o", f"{fixtures}/debug.fatbin", "kernels.cu", *code("[sm_80,compute_80]", "compute_80"))
    tool("nvcc", "-fatbin", "-o", f"{fixtures}/lto.fatbin", "kernels.cu", *code("[lto_90,sm_90]", "compute_90"))
    tool("nvcc", "-c", "-rdc=true", "-o", f"{fixtures}/relocatable.o", "kernels.cu", *code("[sm_80,compute_80]", "compute_80"))
    tool("nvcc", "-c", "-Xcompiler", "-fPIC", "-o", "kernels.o", "kernels.cu", *default)
    shutil.copy(SAMPLE, "reduction.ptx")
    subprocess.run(["gcc", "-shared", "-s", "-o", f"{fixtures}/library.so", "kernels.o"], check=True)
    # A name that has no room in a member's header, and a member that is for the host alone.
    shutil.copy("kernels.o", "kernels_with_a_long_name.o")
    with open("host.c", "w") as file:
        file.write("int host(void) { return 1; }\n")
    subprocess.run(["gcc", "-c", "host.c"], check=True)
    members = ["host.o", "kernels_with_a_long_name.o", "kernels.o"]
    subprocess.run(["ar", "rcsD", f"{fixtures}/archive.a", *members], check=True)


def record():
    """What cuobjdump says: a line `= FILE WHAT`, then its output."""
    recorded = []
    for name in sorted(os.listdir(fixtures)):
        path = os.path.join(fixtures, name)
        recorded.append(f"= {name} list\n" + tool("cuobjdump", "-lelf", "-lptx", path))
        recorded.append(f"= {name} resources\n" + tool("cuobjdump", "-res-usage", path))
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            said = tool("cuobjdump", "-xptx", "all", path)
            for ptx in re.findall(r"\d+: (\S+\.ptx)", said):
                with open(ptx) as file:
                    text = file.read()
                recorded.append(f"= {name} ptx\n{text}\n")
            os.chdir("/")
    with open(os.path.join(HERE, "recorded"), "w") as file:
        file.write("".join(recorded))
    subprocess.run(["xz", "-9ef", os.path.join(HERE, "recorded")], check=True)


shutil.rmtree(fixtures, ignore_errors=True)
os.makedirs(fixtures)
with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    make()
    os.chdir("/")
record()
