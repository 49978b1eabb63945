"""Kernels in Triton, compiled by `ptxkit ptxas` and compared with numpy. They run on the CPU device:

    clients/triton/run WHEELS
"""

import numpy
import pytest
import triton
import triton.language as tl
from device import Buffer
from triton.language.extra import libdevice

RANDOM = numpy.random.default_rng(7)


def floats(*shape, dtype="float32"):
    return RANDOM.standard_normal(shape).astype(dtype)


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "int64"])
def test_add(dtype):
    n = 1000
    x, y = (RANDOM.integers(-60, 60, n).astype(dtype) for _ in range(2))
    out = Buffer(numpy.zeros_like(x))
    add[(triton.cdiv(n, 256),)](Buffer(x), Buffer(y), out, n, BLOCK=256)
    numpy.testing.assert_array_equal(out.read(), x + y)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, at < columns, -float("inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * columns + at, powers / tl.sum(powers, 0), at < columns)


@pytest.mark.parametrize("columns", [31, 200, 1000])
def test_softmax(columns):
    x = floats(17, columns)
    out = Buffer(numpy.zeros_like(x))
    softmax[(17,)](Buffer(x), out, columns, BLOCK=triton.next_power_of_2(columns))
    powers = numpy.exp(x - x.max(1, keepdims=True))
    numpy.testing.assert_allclose(out.read(), powers / powers.sum(1, keepdims=True), rtol=1e-5)


@triton.jit
def layer_norm(x, weight, bias, out, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, inside, 0.0)
    mean = tl.sum(values, 0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / columns + epsilon)
    result = centred * scale * tl.load(weight + at, inside) + tl.load(bias + at, inside)
    tl.store(out + row * columns + at, result, inside)


def test_layer_norm():
    x, weight, bias = floats(9, 300), floats(300), floats(300)
    out = Buffer(numpy.zeros_like(x))
    layer_norm[(9,)](Buffer(x), Buffer(weight), Buffer(bias), out, 300, 1e-5, BLOCK=512)
    centred = x - x.mean(1, keepdims=True)
    expected = centred / numpy.sqrt(x.var(1, keepdims=True) + 1e-5) * weight + bias
    numpy.testing.assert_allclose(out.read(), expected, rtol=1e-4, atol=1e-5)


@triton.jit
def reduce(x, sums, greatest, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    values = tl.load(x + row * BLOCK + tl.arange(0, BLOCK))
    tl.store(sums + row, tl.sum(values, 0))
    tl.store(greatest + row, tl.argmax(values, 0))


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_reduce(warps):
    x = floats(5, 1024)
    sums, greatest = Buffer(numpy.zeros(5, "float32")), Buffer(numpy.zeros(5, "int32"))
    reduce[(5,)](Buffer(x), sums, greatest, BLOCK=1024, num_warps=warps)
    numpy.testing.assert_allclose(sums.read(), x.sum(1), rtol=1e-4, atol=1e-4)
    numpy.testing.assert_array_equal(greatest.read(), x.argmax(1))


@triton.jit
def sort(x, out, BLOCK: tl.constexpr, DESCENDING: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(x + at), descending=DESCENDING))


@pytest.mark.parametrize("descending", [False, True])
def test_sort(descending):
    x = RANDOM.permutation(4 * 256).astype("int32").reshape(4, 256)
    out = Buffer(numpy.zeros_like(x))
    sort[(4,)](Buffer(x), out, BLOCK=256, DESCENDING=descending)
    expected = numpy.sort(x, 1)
    numpy.testing.assert_array_equal(out.read(), expected[:, ::-1] if descending else expected)


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def scan(x, sums, largest, BLOCK: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.store(sums + at, tl.cumsum(values, 0, reverse=REVERSE))
    tl.store(largest + at, tl.associative_scan(values, 0, larger, reverse=REVERSE))


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse):
    x = RANDOM.integers(-9, 9, 512).astype("int32")
    sums, largest = Buffer(numpy.zeros_like(x)), Buffer(numpy.zeros_like(x))
    scan[(1,)](Buffer(x), sums, largest, BLOCK=512, REVERSE=reverse)
    turned = x[::-1] if reverse else x
    turn = slice(None, None, -1 if reverse else 1)
    numpy.testing.assert_array_equal(sums.read(), numpy.cumsum(turned)[turn])
    numpy.testing.assert_array_equal(largest.read(), numpy.maximum.accumulate(turned)[turn])


@triton.jit
def count(x, counts, total, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + at, inside, 0)
    tl.atomic_add(counts + values, 1, inside)
    tl.atomic_max(total, tl.max(values, 0))


def test_atomics():
    x = RANDOM.integers(0, 37, 5000).astype("int32")
    counts, largest = Buffer(numpy.zeros(37, "int32")), Buffer(numpy.zeros(1, "int32"))
    count[(triton.cdiv(5000, 512),)](Buffer(x), counts, largest, 5000, BLOCK=512)
    numpy.testing.assert_array_equal(counts.read(), numpy.bincount(x, minlength=37))
    assert largest.read()[0] == x.max()


@triton.jit
def lock_and_add(lock, sum):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(sum, tl.load(sum) + tl.program_id(0))
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def test_a_lock_between_programs():
    lock, sum = Buffer(numpy.zeros(1, "int32")), Buffer(numpy.zeros(1, "int32"))
    lock_and_add[(40,)](lock, sum)
    assert sum.read()[0] == 780


@triton.jit
def transpose(x, out, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    values = tl.load(x + row[:, None] * columns + column[None, :], inside)
    turned = (column < columns)[:, None] & (row < rows)[None, :]
    tl.store(out + column[:, None] * rows + row[None, :], tl.trans(values), turned)


def test_transpose():
    x = floats(100, 77)
    out = Buffer(numpy.zeros((77, 100), "float32"))
    transpose[(4, 3)](Buffer(x), out, 100, 77, BLOCK=32)
    numpy.testing.assert_array_equal(out.read(), x.T)


@triton.jit
def mathematics(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at, at < n, 1.0)
    result = libdevice.erf(values) + tl.sin(values) * libdevice.tanh(values) + tl.log(tl.abs(values) + 1)
    tl.store(out + at, result, at < n)


def test_mathematics():
    from math import erf

    x = floats(100)
    out = Buffer(numpy.zeros_like(x))
    mathematics[(1,)](Buffer(x), out, 100, BLOCK=128)
    expected = numpy.vectorize(erf)(x) + numpy.sin(x) * numpy.tanh(x) + numpy.log(numpy.abs(x) + 1)
    numpy.testing.assert_allclose(out.read(), expected, rtol=1e-4, atol=1e-5)


@triton.jit
def dropout(x, out, n, share, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, at) > share
    values = tl.load(x + at, at < n)
    tl.store(out + at, tl.where(kept, values / (1 - share), 0.0), at < n)


def test_dropout():
    x = numpy.ones(10000, "float32")
    out = Buffer(numpy.zeros_like(x))
    dropout[(triton.cdiv(10000, 1024),)](Buffer(x), out, 10000, 0.25, 123, BLOCK=1024)
    result = out.read()
    assert set(numpy.unique(result)) == {0.0, numpy.float32(1 / 0.75)}
    assert 0.7 < (result > 0).mean() < 0.8


@triton.jit
def pick(x, index, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.store(out + at, tl.gather(values, tl.load(index + at), 0))


def test_gather():
    x, index = floats(256), RANDOM.integers(0, 256, 256).astype("int32")
    out = Buffer(numpy.zeros_like(x))
    pick[(1,)](Buffer(x), Buffer(index), out, BLOCK=256)
    numpy.testing.assert_array_equal(out.read(), x[index])


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    sum = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        left = tl.load(a + row[:, None] * k + inner[None, :], (row < m)[:, None] & (inner < k)[None, :], 0.0)
        right = tl.load(b + inner[:, None] * n + column[None, :], (inner < k)[:, None] & (column < n)[None, :], 0.0)
        sum = tl.dot(left, right, sum)
    tl.store(c + row[:, None] * n + column[None, :], sum, (row < m)[:, None] & (column < n)[None, :])


# The last is too small for the instructions of a warp group.
@pytest.mark.parametrize("dtype, m, n, k, warps", [
    ("float16", 64, 64, 32, 4),
    ("float32", 64, 64, 32, 4),
    ("float16", 32, 32, 32, 1),
])
def test_matmul(dtype, m, n, k, warps):
    a, b = floats(100, 90, dtype=dtype), floats(90, 70, dtype=dtype)
    c = Buffer(numpy.zeros((100, 70), "float32"))
    grid = (triton.cdiv(100, m), triton.cdiv(70, n))
    matmul[grid](Buffer(a), Buffer(b), c, 100, 70, 90, M=m, N=n, K=k, num_warps=warps)
    numpy.testing.assert_allclose(c.read(), a.astype("float32") @ b.astype("float32"), rtol=2e-2, atol=2e-2)
