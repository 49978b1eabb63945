"""HOME TARGET SOURCE OUTPUT: builds a CUDA source to PTX with NVRTC."""
import ctypes
import pathlib
import sys

home, target, source, output = sys.argv[1:]
nvrtc = ctypes.CDLL(next(pathlib.Path(home, "lib").glob("libnvrtc.so.*")))
program = ctypes.c_void_p()
text = pathlib.Path(source).read_bytes()
if nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), 0, None, None):
    sys.exit("error: no program")
options = [f"--gpu-architecture={target}", f"-I{home}/include", f"-I{home}/include/cccl", "-default-device", "--device-int128"]
given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
failed = nvrtc.nvrtcCompileProgram(program, len(options), given)
size = ctypes.c_size_t()
if failed:
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    sys.exit(log.value.decode())
nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
ptx = ctypes.create_string_buffer(size.value)
nvrtc.nvrtcGetPTX(program, ptx)
pathlib.Path(output).write_bytes(ptx.value)
