"""The kernels of `crates/ptxcheck/ecosystem/triton_kernels.py`, compared with numpy: the subjects
of Triton's tutorials (softmax, products of matrices, dropout, layer norm, attention, libdevice,
groups of products, persistent kernels, tensor descriptors), those of libraries for language
models, and the forms that torch.compile generates. Run as `test_kernels.py` is.
"""

import math

import numpy
import pytest
import triton
from device import Buffer, Shifted
from triton_kernels import KERNELS

RANDOM = numpy.random.default_rng(11)
ENTRIES = {name: entry for name, *entry in KERNELS}


def floats(*shape, dtype="float32"):
    return RANDOM.standard_normal(shape).astype(dtype)


def zeros(*shape, dtype="float32"):
    return Buffer(numpy.zeros(shape, dtype))


def launch(name, grid, *arguments, **constants):
    """With the constants that the kernel is registered with, but for those that are given."""
    function, _, registered, warps, stages, least = ENTRIES[name]
    if triton.runtime.driver.active.get_current_target().arch < least:
        pytest.skip(f"{name} is for compute capability {least / 10} and later")
    given = [Buffer(each) if isinstance(each, numpy.ndarray) else each for each in arguments]
    constants = registered | constants
    function[grid](*given, **constants, num_warps=warps, num_stages=stages)


def constant(name, which):
    return ENTRIES[name][2][which]


def near(found, expected, tolerance=1e-5):
    found, expected = numpy.asarray(found, "float64"), numpy.asarray(expected, "float64")
    numpy.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def bfloats(array):
    """The bits of bfloat16, and their values: what numpy has no type for."""
    bits = (array.astype("float32").view("uint32") + 0x8000 >> 16).astype("uint16")
    return bits, of_bfloats(bits)


def of_bfloats(bits):
    return (bits.astype("uint32") << 16).view("float32")


def e4m3_values():
    """The value of each byte as a float of 8 bits, e4m3."""
    byte = numpy.arange(256)
    exponent, mantissa = byte >> 3 & 15, byte & 7
    small = numpy.ldexp(mantissa / 8, -6)
    value = numpy.where(exponent == 0, small, numpy.ldexp(1 + mantissa / 8, exponent - 7))
    return numpy.where(byte & 128, -value, value)


def softmax_of(x):
    powers = numpy.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("name, shift", [("add", 0), ("add_unaligned", 4)])
def test_add(name, shift):
    x, y = floats(5001), floats(5001)
    n = 5001 - shift // 4
    out = zeros(5001)
    shifted = [Shifted(buffer, shift) for buffer in (Buffer(x), Buffer(y), out)]
    launch(name, (triton.cdiv(n, constant(name, "BLOCK")),), *shifted, n)
    expected = x + y
    expected[: shift // 4] = 0
    numpy.testing.assert_array_equal(out.read(), expected)


@pytest.mark.parametrize("name, dtype, columns", [("softmax", "float32", 781), ("softmax_half", "float16", 208)])
def test_softmax(name, dtype, columns):
    x = floats(19, columns, dtype=dtype)
    out = zeros(19, columns, dtype=dtype)
    launch(name, (4,), out, x, columns, columns, 19, columns)
    near(out.read(), softmax_of(x.astype("float32")), 1e-5 if dtype == "float32" else 1e-3)


@pytest.mark.parametrize("name, dtype, size", [
    ("matmul", "float16", (208, 144, 96)),
    ("matmul_single", "float32", (100, 70, 90)),
    ("matmul_int8", "int8", (96, 80, 144)),
])
def test_matmul(name, dtype, size):
    m, n, k = size
    if dtype == "int8":
        a, b, c = RANDOM.integers(-128, 128, (m, k), dtype), RANDOM.integers(-128, 128, (k, n), dtype), zeros(m, n, dtype="int32")
    else:
        a, b, c = floats(m, k, dtype=dtype), floats(k, n, dtype=dtype), zeros(m, n, dtype=dtype)
    tiles = triton.cdiv(m, constant(name, "M")) * triton.cdiv(n, constant(name, "N"))
    launch(name, (tiles,), a, b, c, m, n, k, k, n, n)
    expected = a.astype("float64") @ b.astype("float64")
    if constant(name, "RELU"):
        expected = numpy.where(expected >= 0, expected, 0.01 * expected)
    near(c.read(), expected, 2e-2 if dtype != "int8" else 0)


def test_matmul_persistent():
    m, n, k = 208, 272, 96
    a, b, c = floats(m, k, dtype="float16"), floats(n, k, dtype="float16"), zeros(m, n, dtype="float16")
    # Two programs for six tiles.
    launch("matmul_persistent", (2,), a, b, c, m, n, k, SMS=2)
    near(c.read(), a.astype("float64") @ b.T.astype("float64"), 2e-2)


def test_matmul_descriptors():
    kept = []

    def allocate(size, _align, _stream):
        kept.append(zeros(size, dtype="int8"))
        return kept[-1]

    triton.set_allocator(allocate)
    m, n, k = 208, 272, 96
    a, b, c = floats(m, k, dtype="float16"), floats(n, k, dtype="float16"), zeros(m, n, dtype="float16")
    launch("matmul_descriptors", (triton.cdiv(m, 128) * triton.cdiv(n, 128),), a, b, c, m, n, k)
    near(c.read(), a.astype("float64") @ b.T.astype("float64"), 2e-2)


def test_matmul_fp8():
    m, n, k = 128, 64, 256
    values = e4m3_values()
    # Neither large numbers nor those that are none.
    a, b = (RANDOM.choice(numpy.flatnonzero(abs(values) <= 2), shape).astype("uint8") for shape in ((m, k), (n, k)))
    c = zeros(m, n, dtype="float16")
    scales = numpy.array([0.5], "float32"), numpy.array([0.25], "float32")
    launch("matmul_fp8", (1, 1), Buffer(a, "fp8e4nv"), Buffer(b, "fp8e4nv"), c, *scales, m, n, k)
    near(c.read(), values[a] @ values[b].T / 8, 2e-3)


def e2m1_values():
    """The values of both floats of 4 bits in each byte, the lower first."""
    values = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = numpy.concatenate([values, -values])
    byte = numpy.arange(256)
    return numpy.stack([values[byte & 15], values[byte >> 4]], -1)


@pytest.mark.parametrize("name", ["matmul_mxfp4", "matmul_mxfp8", "matmul_nvfp4"])
def test_matmul_scaled(name):
    m, n, k = 256, 128, 384
    packed, block = constant(name, "PACKED"), constant(name, "BLOCK")
    values = e2m1_values() if packed == 2 else e4m3_values()[:, None]
    usual = numpy.flatnonzero((abs(values) <= 6).all(-1))
    a, b = (RANDOM.choice(usual, (lines, k // packed)).astype("uint8") for lines in (m, n))
    c = zeros(m, n, dtype="float16")
    # Powers of 2, or floats of 8 bits, from 1/8 to 4.
    if block == 32:
        of_scale, possible, kind = numpy.ldexp(1.0, numpy.arange(256) - 127), range(124, 130), None
    else:
        of_scale, possible, kind = e4m3_values(), range(0x20, 0x4A), "fp8e4nv"
    a_scale, b_scale = (RANDOM.choice(possible, (lines, k // block)).astype("uint8") for lines in (m, n))
    launch(name, (2, 2), a, b, c, *(Buffer(each, kind) if kind else each for each in (a_scale, b_scale)), m, n, k)
    x, y = (
        values[of].reshape(len(of), k) * of_scale[scale].repeat(block, 1)
        for of, scale in ((a, a_scale), (b, b_scale))
    )
    near(c.read() / 64, x @ y.T / 64, 2e-2)


def test_grouped_gemm():
    sizes = [(128, 128, 64), (256, 128, 32), (128, 256, 96)]
    a = [floats(m, k, dtype="float16") for m, n, k in sizes]
    b = [floats(k, n, dtype="float16") for m, n, k in sizes]
    c = [zeros(m, n, dtype="float16") for m, n, k in sizes]
    operands = [Buffer(each) for each in a], [Buffer(each) for each in b], c
    addresses = [numpy.array([each.data_ptr() for each in group], "int64") for group in operands]
    strides = numpy.array([(k, n, n) for m, n, k in sizes], "int32")
    # Two programs for five tiles.
    launch("grouped_gemm", (2,), *addresses, numpy.array(sizes, "int32"), strides, len(sizes), SMS=2)
    for left, right, result in zip(a, b, c):
        near(result.read(), left.astype("float64") @ right.astype("float64"), 2e-2)


def test_matmul_split():
    # Whole tiles: the kernel loads what is outside of them.
    m, n, k = 64, 32, 400
    a, b, c = floats(m, k, dtype="float16"), floats(k, n, dtype="float16"), zeros(m, n)
    launch("matmul_split", (2, 1, constant("matmul_split", "SPLIT")), a, b, c, m, n, k)
    near(c.read(), a.astype("float64") @ b.astype("float64"), 2e-2)


def test_layer_norm():
    x, weight, bias = floats(7, 1500, dtype="float16"), floats(1500, dtype="float16"), floats(1500, dtype="float16")
    y, mean, scale = zeros(7, 1500, dtype="float16"), zeros(7), zeros(7)
    launch("layer_norm", (7,), x, y, weight, bias, mean, scale, 1500, 1e-5, 1500)
    wide = x.astype("float64")
    near(mean.read(), wide.mean(1), 1e-4)
    near(scale.read(), 1 / numpy.sqrt(wide.var(1) + 1e-5), 1e-4)
    near(y.read(), (wide - wide.mean(1, keepdims=True)) / numpy.sqrt(wide.var(1, keepdims=True) + 1e-5) * weight + bias, 1e-2)


def test_layer_norm_backward():
    rows, columns, groups = 10, 300, 4
    x, dy, weight = floats(rows, columns, dtype="float16"), floats(rows, columns, dtype="float16"), floats(columns, dtype="float16")
    wide = x.astype("float64")
    mean, scale = wide.mean(1), 1 / numpy.sqrt(wide.var(1) + 1e-5)
    dx, dw = zeros(rows, columns, dtype="float16"), zeros(groups, columns, dtype="float16")
    locks = zeros(2 * groups, dtype="int32")
    # The programs of several rows add into one group, under its lock.
    launch("layer_norm_backward", (rows,), dx, dy, dw, weight, x, mean.astype("float32"), scale.astype("float32"),
           locks, columns, columns, GROUP=groups)
    hat = (wide - mean[:, None]) * scale[:, None]
    weighted = weight.astype("float64") * dy
    first, second = (hat * weighted).mean(1, keepdims=True), weighted.mean(1, keepdims=True)
    near(dx.read(), (weighted - hat * first - second) * scale[:, None], 1e-2)
    near(dw.read().astype("float64").sum(0), (dy * hat).sum(0), 3e-2)


def test_rms_norm():
    x, weight, y = floats(5, 1504, dtype="float16"), floats(1504, dtype="float16"), zeros(5, 1504, dtype="float16")
    launch("rms_norm", (5,), x, weight, y, 1504, 1e-6)
    wide = x.astype("float64")
    near(y.read(), wide / numpy.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * weight, 1e-2)


def test_dropout():
    x, out, again = floats(5000), zeros(5000), zeros(5000)
    launch("dropout", (5,), x, out, 5000, 0.25, 123)
    launch("dropout", (5,), x, again, 5000, 0.25, 123)
    found = out.read()
    numpy.testing.assert_array_equal(found, again.read())
    near(found[found != 0], x[found != 0] / 0.75)
    assert 0.7 < (found != 0).mean() < 0.8


@pytest.mark.parametrize("name, length", [("attention", 208), ("attention_full", 192)])
def test_attention(name, length):
    q, k, v = (floats(3, length, 64, dtype="float16") for _ in range(3))
    out, log_sum = zeros(3, length, 64, dtype="float16"), zeros(3, length)
    launch(name, (triton.cdiv(length, constant(name, "M")), 3), q, k, v, out, log_sum, 0.125, length)
    scores = q.astype("float64") @ k.astype("float64").swapaxes(1, 2) * 0.125
    if constant(name, "CAUSAL"):
        scores = numpy.where(numpy.tri(length, dtype=bool), scores, -numpy.inf)
    near(out.read(), softmax_of(scores) @ v.astype("float64"), 1e-2)
    near(log_sum.read(), numpy.log2(numpy.exp(scores).sum(-1)), 1e-2)


def test_attention_paged():
    sequences, heads, pages, page, depth = 3, 2, 9, 16, 128
    lengths = numpy.array([40, 1, 33], "int32")
    table = RANDOM.permutation(pages).reshape(sequences, 3).astype("int32")
    q = floats(sequences, heads, depth, dtype="float16")
    k, v = (floats(pages, heads, page, depth, dtype="float16") for _ in range(2))
    out = zeros(sequences, heads, depth, dtype="float16")
    launch("attention_paged", (sequences, heads), q, k, v, table, lengths, out, 0.1, 3)
    found = out.read()
    for sequence, length in enumerate(lengths):
        for head in range(heads):
            keys, values = (each[table[sequence], head].reshape(-1, depth)[:length].astype("float64") for each in (k, v))
            near(found[sequence, head], softmax_of(keys @ q[sequence, head] * 0.1) @ values, 1e-2)


def test_cross_entropy():
    logits, labels = floats(6, 5000), RANDOM.integers(0, 5000, 6)
    labels[2] = -100
    loss, log_sum = zeros(6), zeros(6)
    launch("cross_entropy", (6,), logits, labels, loss, log_sum, 5000, 5000)
    expected = numpy.log(numpy.exp(logits.astype("float64")).sum(1))
    near(log_sum.read(), expected)
    near(loss.read(), numpy.where(labels == -100, 0, expected - logits[numpy.arange(6), labels]))


def test_rotary():
    tokens, heads, half = 5, 3, 64
    bits, x = bfloats(floats(tokens, heads, 2, half))
    angle = floats(tokens, half)
    (cosine_bits, cosine), (sine_bits, sine) = bfloats(numpy.cos(angle)), bfloats(numpy.sin(angle))
    turned = Buffer(bits, "bf16")
    launch("rotary", (tokens,), turned, Buffer(cosine_bits, "bf16"), Buffer(sine_bits, "bf16"), heads * 2 * half, heads)
    c, s = cosine[:, None], sine[:, None]
    first, second = x[:, :, 0], x[:, :, 1]
    near(of_bfloats(turned.read()), numpy.stack([first * c - second * s, second * c + first * s], 2), 2e-2)


def test_transpose():
    x, out = floats(100, 77), zeros(77, 100)
    launch("transpose", (4, 3), x, out, 100, 77)
    numpy.testing.assert_array_equal(out.read(), x.T)


def test_histogram():
    x, counts = RANDOM.integers(0, 256, 6144).astype("int32"), zeros(256, dtype="int32")
    launch("histogram", (3,), x, counts, 6144)
    numpy.testing.assert_array_equal(counts.read(), numpy.bincount(x, minlength=256))


def test_cumulative_sum():
    x, out = floats(3, 2500), zeros(3, 2500)
    launch("cumulative_sum", (3,), x, out, 2500)
    near(out.read(), numpy.cumsum(x.astype("float64"), 1), 1e-3)


def test_linear_recurrence():
    gate, x, out = floats(128, 64) / 2, floats(128, 64), zeros(128, 64)
    launch("linear_recurrence", (2,), gate, x, out, 64)
    expected, state = [], 0
    for each_gate, each in zip(gate.astype("float64"), x.astype("float64")):
        state = each_gate * state + each
        expected.append(state)
    near(out.read(), expected, 1e-4)


def test_argmax():
    x, out = floats(9, 700), zeros(9, dtype="int64")
    launch("argmax", (9,), x, out, 700)
    numpy.testing.assert_array_equal(out.read(), x.argmax(1))


def test_sort_rows():
    x, out = floats(4, 300), zeros(4, 300)
    launch("sort_rows", (4,), x, out, 300)
    numpy.testing.assert_array_equal(out.read(), numpy.sort(x, 1))


def test_gemv_int4():
    n, k = 64, 256
    weights = RANDOM.integers(0, 16, (n, k // 8, 8), dtype="uint32")
    packed = (weights << numpy.arange(8, dtype="uint32") * 4).sum(2, dtype="uint32").view("int32")
    scales, x, out = floats(n, k // 128, dtype="float16"), floats(k, dtype="float16"), zeros(n, dtype="float16")
    launch("gemv_int4", (2,), packed, scales, x, out, n, k)
    wide = (weights.reshape(n, k).astype("float64") - 8) * scales.repeat(128, 1)
    near(out.read(), wide @ x, 1e-1)


def test_embedding_bag():
    index, table, out = RANDOM.integers(-1, 30, (5, 7)), floats(30, 300), zeros(5, 300)
    launch("embedding_bag", (5, 2), index, table, out, 7, 300)
    near(out.read(), [sum((table[which] for which in bag if which >= 0), numpy.zeros(300)) for bag in index])


def test_adam():
    n = 3000
    weight, slope, first, second = floats(n), floats(n), floats(n), floats(n) ** 2
    buffers = Buffer(weight), Buffer(slope), Buffer(first), Buffer(second)
    launch("adam", (3,), *buffers, numpy.array([3], "float32"), n)
    m, v = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
    near(buffers[2].read(), m)
    near(buffers[3].read(), v)
    near(buffers[0].read(), weight - 0.001 * (m / (1 - 0.9**3)) / (numpy.sqrt(v / (1 - 0.999**3)) + 1e-8))


def test_a_barrier_of_programs():
    x = floats(4 * 256)
    buffer, out, arrived = Buffer(x), zeros(4 * 256), zeros(1, dtype="int32")
    launch("barrier_of_programs", (4,), buffer, out, arrived, 4 * 256)
    numpy.testing.assert_array_equal(buffer.read(), numpy.roll(2 * x, -256))
    assert arrived.read()[0] == 4


def test_assembly():
    x, out = floats(1008, dtype="float16"), zeros(1008)
    launch("assembly", (2,), x, out, 1008)
    near(out.read(), numpy.tanh(x.astype("float64")), 1e-3)


def test_pointwise():
    x, bias, out = floats(4, 768), floats(768), zeros(4, 768)
    sums = Buffer(x)
    launch("poi_fused_add_gelu_view", (3,), sums, bias, out, 4 * 768)
    near(sums.read(), x + bias)
    near(out.read(), numpy.vectorize(lambda each: 0.5 * each * (math.erf(each / math.sqrt(2)) + 1))(x + bias))


def test_pointwise_over_two():
    first, second, out = floats(3, 33, 8), floats(3, 33, 9), zeros(3, 33, 17)
    launch("poi_fused_cat_constant_pad", (4,), first, second, out, 3 * 33 * 17)
    numpy.testing.assert_array_equal(out.read(), numpy.concatenate([first, second], 2))


def test_pointwise_by_index():
    x, index, out = floats(1001, 64), RANDOM.integers(-1000, 1000, 9), zeros(9, 64)
    launch("poi_fused_index_max_pool", (3,), x, index, out, 9 * 64)
    at = (index % 1000)[:, None] * 64 + numpy.arange(64)
    numpy.testing.assert_array_equal(out.read(), numpy.maximum(x.ravel()[at], x.ravel()[at + 1]))


@pytest.mark.parametrize("name", ["red_fused_native_layer_norm", "red_fused_native_layer_norm_narrow"])
def test_reduction_with_a_loop(name):
    x = floats(70, 700)
    means, scales, spreads = zeros(70), zeros(70), zeros(70)
    launch(name, (triton.cdiv(70, constant(name, "XBLOCK")),), x, means, scales, spreads, 70, 700)
    wide = x.astype("float64")
    near(means.read(), wide.mean(1))
    near(scales.read(), 1 / numpy.sqrt(wide.var(1) + 1e-5), 1e-4)
    near(spreads.read(), wide.var(1) * 700, 1e-3)


@pytest.mark.parametrize("name", ["per_fused_softmax_dropout", "per_fused_softmax_dropout_rows"])
def test_reduction_in_one_step(name):
    columns = constant(name, "RBLOCK")
    x, keep, out = floats(10, columns), zeros(10, columns, dtype="bool"), zeros(10, columns)
    launch(name, (triton.cdiv(10, constant(name, "XBLOCK")),), x, keep, out, 7, 10)
    kept = keep.read()
    assert 0.87 < kept.mean() < 0.93
    near(out.read(), kept * softmax_of(x.astype("float64")) / 0.9)


def test_each_kernel_is_run():
    """What another file adds is not left out here."""
    with open(__file__) as file:
        text = file.read()
    assert [name for name in ENTRIES if f'"{name}"' not in text] == []
