"""Kernels in Triton as people write them and as torch.compile generates them, for
scripts/ecosystem: Triton compiles each ahead of time for several targets.

    python triton_kernels.py FOLDER 80 90 100    # FOLDER/<kernel>.sm_<target>.ptx

Needs triton and no GPU.
"""

import pathlib
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra import libdevice

KERNELS = []


def kernel(signature, warps=4, stages=3, least=80, name=None, **constants):
    """Registers a kernel: the types of its arguments, where `:16` says that it is
    divisible by 16, and the values of its constants."""

    def register(function):
        KERNELS.append((name or function.__name__, function, signature, constants, warps, stages, least))
        return function

    return register


@kernel("*fp32:16 *fp32:16 *fp32:16 i32", BLOCK=1024)
@kernel("*fp32 *fp32 *fp32 i32", name="add_unaligned", BLOCK=512)
@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@kernel("*fp32:16 *fp32:16 i32 i32 i32 i32", warps=8, BLOCK=1024)
@kernel("*fp16:16 *fp16:16 i32:16 i32:16 i32 i32", name="softmax_half", warps=4, BLOCK=256)
@triton.jit
def softmax(out, x, x_stride, out_stride, rows, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    inside = column < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        line = tl.load(x + row * x_stride + column, mask=inside, other=-float("inf")).to(tl.float32)
        power = tl.exp(line - tl.max(line, axis=0))
        tl.store(out + row * out_stride + column, power / tl.sum(power, axis=0), mask=inside)


@kernel(
    "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16 i32:16 i32:16 i32:16",
    warps=8,
    M=128,
    N=128,
    K=64,
    GROUP=8,
    RELU=True,
)
@kernel("*fp32 *fp32 *fp32 i32 i32 i32 i32 i32 i32", name="matmul_single", M=64, N=32, K=32, GROUP=4, RELU=False)
@kernel(
    "*i8:16 *i8:16 *i32:16 i32:16 i32:16 i32:16 i32:16 i32:16 i32:16",
    name="matmul_int8",
    M=64,
    N=64,
    K=64,
    GROUP=8,
    RELU=False,
)
@triton.jit
def matmul(
    a,
    b,
    c,
    m,
    n,
    k,
    a_stride,
    b_stride,
    c_stride,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    GROUP: tl.constexpr,
    RELU: tl.constexpr,
):
    program = tl.program_id(0)
    across = tl.cdiv(n, N)
    down = tl.cdiv(m, M)
    group = program // (GROUP * across)
    first = group * GROUP
    height = min(down - first, GROUP)
    tile_m = first + (program % (GROUP * across)) % height
    tile_n = (program % (GROUP * across)) // height
    row = (tile_m * M + tl.arange(0, M)) % m
    column = (tile_n * N + tl.arange(0, N)) % n
    inner = tl.arange(0, K)
    a_at = a + row[:, None] * a_stride + inner[None, :]
    b_at = b + inner[:, None] * b_stride + column[None, :]
    sum = tl.zeros((M, N), dtype=tl.int32 if c.dtype.element_ty == tl.int32 else tl.float32)
    for step in range(0, tl.cdiv(k, K)):
        left = k - step * K
        x = tl.load(a_at, mask=inner[None, :] < left, other=0)
        y = tl.load(b_at, mask=inner[:, None] < left, other=0)
        sum = tl.dot(x, y, sum, out_dtype=sum.dtype)
        a_at += K
        b_at += K * b_stride
    if RELU:
        sum = tl.where(sum >= 0, sum, 0.01 * sum)
    row = tile_m * M + tl.arange(0, M)
    column = tile_n * N + tl.arange(0, N)
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c + row[:, None] * c_stride + column[None, :], sum.to(c.dtype.element_ty), mask=inside)


@kernel(
    "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16", warps=8, stages=3, SMS=132, M=128, N=128, K=64
)
@triton.jit
def matmul_persistent(a, b, c, m, n, k, SMS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    across = tl.cdiv(n, N)
    tiles = tl.cdiv(m, M) * across
    for tile in tl.range(tl.program_id(0), tiles, SMS, flatten=True):
        row = tile // across * M + tl.arange(0, M)
        column = tile % across * N + tl.arange(0, N)
        sum = tl.zeros((M, N), dtype=tl.float32)
        for step in range(tl.cdiv(k, K)):
            inner = step * K + tl.arange(0, K)
            x = tl.load(a + row[:, None] * k + inner[None, :], mask=(row[:, None] < m) & (inner[None, :] < k), other=0.0)
            y = tl.load(b + column[:, None] * k + inner[None, :], mask=(column[:, None] < n) & (inner[None, :] < k), other=0.0)
            sum = tl.dot(x, y.T, sum)
        inside = (row[:, None] < m) & (column[None, :] < n)
        tl.store(c + row[:, None] * n + column[None, :], sum.to(tl.float16), mask=inside)


@kernel("*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16", warps=4, least=90, M=128, N=128, K=64)
@triton.jit
def matmul_descriptors(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    a_tiles = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[M, K])
    b_tiles = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[N, K])
    c_tiles = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[M, N])
    across = tl.cdiv(n, N)
    row = tl.program_id(0) // across * M
    column = tl.program_id(0) % across * N
    sum = tl.zeros((M, N), dtype=tl.float32)
    for step in range(tl.cdiv(k, K)):
        sum = tl.dot(a_tiles.load([row, step * K]), b_tiles.load([column, step * K]).T, sum)
    c_tiles.store([row, column], sum.to(tl.float16))


@kernel("*fp8e4nv:16 *fp8e4nv:16 *fp16:16 *fp32 *fp32 i32:16 i32:16 i32:16", least=90, M=128, N=64, K=128)
@triton.jit
def matmul_fp8(a, b, c, a_scale, b_scale, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    sum = tl.zeros((M, N), dtype=tl.float32)
    for step in range(0, k, K):
        x = tl.load(a + row[:, None] * k + step + inner[None, :])
        y = tl.load(b + column[None, :] * k + step + inner[:, None])
        sum = tl.dot(x, y, sum)
    sum = sum * tl.load(a_scale) * tl.load(b_scale)
    tl.store(c + row[:, None] * n + column[None, :], sum.to(tl.float16), mask=(row[:, None] < m) & (column[None, :] < n))


@kernel("*u8:16 *u8:16 *fp16:16 *u8:16 *u8:16 i32:16 i32:16 i32:16", name="matmul_mxfp4", M=128, N=64, K=128, TYPE="e2m1", PACKED=2, BLOCK=32)
@kernel("*u8:16 *u8:16 *fp16:16 *u8:16 *u8:16 i32:16 i32:16 i32:16", name="matmul_mxfp8", least=90, M=128, N=64, K=128, TYPE="e4m3", PACKED=1, BLOCK=32)
@kernel("*u8:16 *u8:16 *fp16:16 *fp8e4nv:16 *fp8e4nv:16 i32:16 i32:16 i32:16", name="matmul_nvfp4", least=90, M=128, N=64, K=128, TYPE="e2m1", PACKED=2, BLOCK=16)
@triton.jit
def matmul_scaled(a, b, c, a_scale, b_scale, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TYPE: tl.constexpr, PACKED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K // PACKED)
    block = tl.arange(0, K // BLOCK)
    sum = tl.zeros((M, N), dtype=tl.float32)
    for step in range(0, k, K):
        x = tl.load(a + row[:, None] * (k // PACKED) + step // PACKED + inner[None, :])
        y = tl.load(b + column[None, :] * (k // PACKED) + step // PACKED + inner[:, None])
        x_scale = tl.load(a_scale + row[:, None] * (k // BLOCK) + step // BLOCK + block[None, :])
        y_scale = tl.load(b_scale + column[:, None] * (k // BLOCK) + step // BLOCK + block[None, :])
        sum = tl.dot_scaled(x, x_scale, TYPE, y, y_scale, TYPE, sum)
    tl.store(c + row[:, None] * n + column[None, :], sum.to(tl.float16))


@kernel("*i64:16 *i64:16 *i64:16 *i32:16 *i32:16 i32", SMS=84, M=128, N=128, K=32)
@triton.jit
def grouped_gemm(a_list, b_list, c_list, sizes, strides, groups, SMS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    tile = tl.program_id(0)
    end = 0
    for group in range(groups):
        m = tl.load(sizes + group * 3)
        n = tl.load(sizes + group * 3 + 1)
        k = tl.load(sizes + group * 3 + 2)
        across = tl.cdiv(n, N)
        tiles = tl.cdiv(m, M) * across
        while (tile >= end) & (tile < end + tiles):
            a = tl.load(a_list + group).to(tl.pointer_type(tl.float16))
            b = tl.load(b_list + group).to(tl.pointer_type(tl.float16))
            c = tl.load(c_list + group).to(tl.pointer_type(tl.float16))
            a_stride = tl.load(strides + group * 3)
            b_stride = tl.load(strides + group * 3 + 1)
            c_stride = tl.load(strides + group * 3 + 2)
            row = (tile - end) // across * M + tl.arange(0, M)
            column = (tile - end) % across * N + tl.arange(0, N)
            inner = tl.arange(0, K)
            a_at = a + row[:, None] * a_stride + inner[None, :]
            b_at = b + inner[:, None] * b_stride + column[None, :]
            sum = tl.zeros((M, N), dtype=tl.float32)
            for _ in range(tl.cdiv(k, K)):
                tl.multiple_of(a_at, [16, 16])
                tl.multiple_of(b_at, [16, 16])
                sum += tl.dot(tl.load(a_at), tl.load(b_at))
                a_at += K
                b_at += K * b_stride
            tl.store(c + row[:, None] * c_stride + column[None, :], sum.to(tl.float16))
            tile += SMS
        end += tiles


@kernel("*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32:16 *fp32:16 i32 fp32 i32", BLOCK=1024, warps=8)
@triton.jit
def layer_norm(x, y, weight, bias, mean_out, scale_out, columns, epsilon, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    square = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
        value = tl.where(at < columns, value - mean, 0.0)
        square += value * value
    scale = 1 / tl.sqrt(tl.sum(square, axis=0) / columns + epsilon)
    tl.store(mean_out + row, mean)
    tl.store(scale_out + row, scale)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        value = (value - mean) * scale * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
        tl.store(y + at, value, mask=inside)


@kernel("*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32 *fp32 *i32 i32 i32", GROUP=64, BLOCK=512, warps=4)
@triton.jit
def layer_norm_backward(dx, dy, dw, weight, x, mean, scale, locks, stride, columns, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    value = tl.load(x + row * stride + at, mask=inside, other=0).to(tl.float32)
    slope = tl.load(dy + row * stride + at, mask=inside, other=0).to(tl.float32)
    w = tl.load(weight + at, mask=inside).to(tl.float32)
    hat = (value - tl.load(mean + row)) * tl.load(scale + row)
    weighted = tl.where(inside, w * slope, 0.0)
    hat = tl.where(inside, hat, 0.0)
    first = tl.sum(hat * weighted, axis=0) / columns
    second = tl.sum(weighted, axis=0) / columns
    tl.store(dx + row * stride + at, (weighted - (hat * first + second)) * tl.load(scale + row), mask=inside)
    lock = locks + row % GROUP
    count = lock + GROUP
    sums = dw + row % GROUP * columns + at
    partial = (slope * hat).to(tl.float16)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        partial += tl.load(sums, mask=inside)
    tl.store(sums, partial, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@kernel("*fp16:16 *fp16:16 *fp16:16 i32:16 fp32", BLOCK=2048, warps=8)
@triton.jit
def rms_norm(x, weight, y, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    value = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value) / columns + epsilon)
    tl.store(y + row * columns + at, value * scale * tl.load(weight + at, mask=inside), mask=inside)


@kernel("*fp32:16 *fp32:16 i32 fp32 i32", BLOCK=1024)
@triton.jit
def dropout(x, out, n, rate, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, at) > rate
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, tl.where(keep, value / (1 - rate), 0.0), mask=at < n)


@triton.jit
def attend(sum, total, top, q, k_at, v_at, start, end, row, length, M: tl.constexpr, N: tl.constexpr, MASKED: tl.constexpr):
    for step in range(start, end, N):
        column = step + tl.arange(0, N)
        score = tl.dot(q, tl.load(k_at + step * 64, mask=column[None, :] < length, other=0.0))
        if MASKED:
            score = tl.where(row[:, None] >= column[None, :], score, -1.0e6)
        higher = tl.maximum(top, tl.max(score, 1))
        power = tl.math.exp2(score - higher[:, None])
        old = tl.math.exp2(top - higher)
        total = total * old + tl.sum(power, 1)
        sum = sum * old[:, None]
        sum = tl.dot(power.to(tl.float16), tl.load(v_at + step * 64, mask=column[:, None] < length, other=0.0), sum)
        top = higher
    return sum, total, top


@kernel("*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32:16 fp32 i32:16", M=128, N=64, CAUSAL=True, warps=4)
@kernel("*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32:16 fp32 i32", name="attention_full", M=64, N=32, CAUSAL=False, warps=4, stages=2)
@triton.jit
def attention(q, k, v, out, log_sum, scale, length, M: tl.constexpr, N: tl.constexpr, CAUSAL: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * length * 64
    row = tl.program_id(0) * M + tl.arange(0, M)
    depth = tl.arange(0, 64)
    q_tile = tl.load(q + head + row[:, None] * 64 + depth[None, :], mask=row[:, None] < length, other=0.0)
    q_tile = (q_tile * scale * 1.44269504).to(tl.float16)
    k_at = k + head + depth[:, None] + tl.arange(0, N)[None, :] * 64
    v_at = v + head + tl.arange(0, N)[:, None] * 64 + depth[None, :]
    sum = tl.zeros([M, 64], dtype=tl.float32)
    total = tl.full([M], 1.0, dtype=tl.float32)
    top = tl.full([M], -float("inf"), dtype=tl.float32)
    if CAUSAL:
        border = tl.program_id(0) * M
        sum, total, top = attend(sum, total, top, q_tile, k_at, v_at, 0, border, row, length, M, N, False)
        sum, total, top = attend(sum, total, top, q_tile, k_at, v_at, border, border + M, row, length, M, N, True)
    else:
        sum, total, top = attend(sum, total, top, q_tile, k_at, v_at, 0, length, row, length, M, N, False)
    tl.store(log_sum + tl.program_id(1) * length + row, top + tl.math.log2(total), mask=row < length)
    tl.store(out + head + row[:, None] * 64 + depth[None, :], (sum / total[:, None]).to(tl.float16), mask=row[:, None] < length)


@kernel("*fp16:16 *fp16:16 *fp16:16 *i32:16 *i32:16 *fp16:16 fp32 i32", PAGE=16, HEAD=128)
@triton.jit
def attention_paged(q, k_pages, v_pages, table, lengths, out, scale, table_stride, PAGE: tl.constexpr, HEAD: tl.constexpr):
    sequence = tl.program_id(0)
    head = tl.program_id(1)
    heads = tl.num_programs(1)
    depth = tl.arange(0, HEAD)
    slot = tl.arange(0, PAGE)
    length = tl.load(lengths + sequence)
    query = tl.load(q + (sequence * heads + head) * HEAD + depth).to(tl.float32) * scale
    top = -float("inf")
    total = 0.0
    sum = tl.zeros([HEAD], dtype=tl.float32)
    for page in range(0, tl.cdiv(length, PAGE)):
        number = tl.load(table + sequence * table_stride + page).to(tl.int64)
        at = ((number * heads + head) * PAGE + slot[:, None]) * HEAD + depth[None, :]
        inside = page * PAGE + slot < length
        key = tl.load(k_pages + at, mask=inside[:, None], other=0.0).to(tl.float32)
        score = tl.where(inside, tl.sum(query[None, :] * key, 1), -float("inf"))
        higher = tl.maximum(top, tl.max(score, 0))
        power = tl.exp(score - higher)
        old = tl.exp(top - higher)
        value = tl.load(v_pages + at, mask=inside[:, None], other=0.0).to(tl.float32)
        sum = sum * old + tl.sum(power[:, None] * value, 0)
        total = total * old + tl.sum(power, 0)
        top = higher
    tl.store(out + (sequence * heads + head) * HEAD + depth, (sum / total).to(tl.float16))


@kernel("*fp32:16 *i64:16 *fp32:16 *fp32:16 i32 i64", BLOCK=4096, warps=16)
@triton.jit
def cross_entropy(logits, labels, loss, log_sum, classes, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + row)
    top = -float("inf")
    total = 0.0
    for start in range(0, classes, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(logits + row * stride + at, mask=at < classes, other=-float("inf"))
        higher = tl.maximum(top, tl.max(value, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(value - higher), 0)
        top = higher
    result = top + tl.log(total)
    tl.store(log_sum + row, result)
    if label == -100:
        tl.store(loss + row, 0.0)
    else:
        tl.store(loss + row, result - tl.load(logits + row * stride + label))


@kernel("*bf16:16 *bf16:16 *bf16:16 i32:16 i32", HALF=64)
@triton.jit
def rotary(x, cosine, sine, stride, heads, HALF: tl.constexpr):
    token = tl.program_id(0)
    at = tl.arange(0, HALF)
    c = tl.load(cosine + token * HALF + at).to(tl.float32)
    s = tl.load(sine + token * HALF + at).to(tl.float32)
    for head in range(heads):
        first = x + token * stride + head * 2 * HALF + at
        a = tl.load(first).to(tl.float32)
        b = tl.load(first + HALF).to(tl.float32)
        tl.store(first, a * c - b * s)
        tl.store(first + HALF, b * c + a * s)


@kernel("*fp32:16 *fp32:16 i32 i32", TILE=32)
@triton.jit
def transpose(x, out, rows, columns, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    tile = tl.load(x + row[:, None] * columns + column[None, :], mask=inside)
    inside = (column[:, None] < columns) & (row[None, :] < rows)
    tl.store(out + column[:, None] * rows + row[None, :], tl.trans(tile), mask=inside)


@kernel("*i32:16 *i32:16 i32", BLOCK=2048, BINS=256)
@triton.jit
def histogram(x, counts, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(counts + tl.arange(0, BINS), tl.histogram(value, BINS))


@kernel("*fp32:16 *fp32:16 i32", BLOCK=1024, warps=8)
@triton.jit
def cumulative_sum(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
        tl.store(out + row * columns + at, tl.cumsum(value, 0) + carry, mask=at < columns)
        carry += tl.sum(value, 0)


@triton.jit
def recur(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@kernel("*fp32:16 *fp32:16 *fp32:16 i32", LENGTH=128, WIDTH=32)
@triton.jit
def linear_recurrence(gate, x, out, stride, LENGTH: tl.constexpr, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, LENGTH)[:, None] * stride + tl.arange(0, WIDTH)[None, :]
    _, result = tl.associative_scan((tl.load(gate + at), tl.load(x + at)), 0, recur)
    tl.store(out + at, result)


@kernel("*fp32:16 *i64:16 i32", BLOCK=1024)
@triton.jit
def argmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    tl.store(out + row, tl.argmax(value, 0).to(tl.int64))


@kernel("*fp32:16 *fp32:16 i32", BLOCK=512)
@triton.jit
def sort_rows(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at, mask=at < columns, other=float("inf"))
    tl.store(out + row * columns + at, tl.sort(value), mask=at < columns)


@kernel("*i32:16 *fp16:16 *fp16:16 *fp16:16 i32:16 i32:16", N=32, K=128)
@triton.jit
def gemv_int4(packed, scales, x, out, n, k, N: tl.constexpr, K: tl.constexpr):
    column = tl.program_id(0) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    sum = tl.zeros([N], dtype=tl.float32)
    for step in range(0, k, K):
        at = step + inner
        word = tl.load(packed + column[:, None] * (k // 8) + at[None, :] // 8)
        nibble = (word >> (at[None, :] % 8 * 4)) & 0xF
        weight = (nibble - 8).to(tl.float32) * tl.load(scales + column[:, None] * (k // K) + step // K)
        sum += tl.sum(weight * tl.load(x + at)[None, :], 1)
    tl.store(out + column, sum.to(tl.float16))


@kernel("*fp16:16 *fp16:16 *fp32:16 i32:16 i32:16 i32:16", M=32, N=32, K=64, SPLIT=4)
@triton.jit
def matmul_split(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, SPLIT: tl.constexpr):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.program_id(2) * K + tl.arange(0, K)
    sum = tl.zeros((M, N), dtype=tl.float32)
    for step in range(0, k, K * SPLIT):
        x = tl.load(a + row[:, None] * k + step + inner[None, :], mask=step + inner[None, :] < k, other=0.0)
        y = tl.load(b + (step + inner[:, None]) * n + column[None, :], mask=step + inner[:, None] < k, other=0.0)
        sum = tl.dot(x, y, sum)
    tl.atomic_add(c + row[:, None] * n + column[None, :], sum, mask=(row[:, None] < m) & (column[None, :] < n), sem="relaxed")


@kernel("*i64:16 *fp32:16 *fp32:16 i32 i32", BLOCK=256)
@triton.jit
def embedding_bag(index, table, out, bag, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    sum = tl.zeros([BLOCK], dtype=tl.float32)
    for entry in range(bag):
        which = tl.load(index + row * bag + entry)
        if which >= 0:
            sum += tl.load(table + which * width + at, mask=at < width, other=0.0)
    tl.store(out + row * width + at, sum, mask=at < width)


@kernel("*fp32:16 *fp32:16 *fp32:16 *fp32:16 *fp32:16 i32", BLOCK=1024, RATE=0.001)
@triton.jit
def adam(weight, slope, first, second, steps, n, BLOCK: tl.constexpr, RATE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    step = tl.load(steps)
    g = tl.load(slope + at, mask=inside)
    m = 0.9 * tl.load(first + at, mask=inside) + 0.1 * g
    v = 0.999 * tl.load(second + at, mask=inside) + 0.001 * g * g
    m_hat = m / (1 - libdevice.pow(0.9, step))
    v_hat = v / (1 - libdevice.pow(0.999, step))
    tl.store(weight + at, tl.load(weight + at, mask=inside) - RATE * m_hat / (tl.sqrt(v_hat) + 1e-8), mask=inside)
    tl.store(first + at, m, mask=inside)
    tl.store(second + at, v, mask=inside)


@kernel("*fp32:16 *fp32:16 *i32 i32", BLOCK=256)
@triton.jit
def barrier_of_programs(x, out, arrived, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n, other=0.0) * 2, mask=at < n)
    tl.debug_barrier()
    tl.atomic_add(arrived, 1, sem="release")
    while tl.atomic_add(arrived, 0, sem="acquire") < tl.num_programs(0):
        pass
    other = (at + BLOCK) % n
    tl.store(x + at, tl.load(out + other, mask=at < n), mask=at < n)


@kernel("*fp16:16 *fp32:16 i32:16", BLOCK=512)
@triton.jit
def assembly(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n).to(tl.float32)
    fast = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [value], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out + at, fast, mask=at < n)


# The next ones have the form that torch.compile generates: pointwise, reduction with a
# loop, reduction in one step, and their index arithmetic.


@kernel("*fp32:16 *fp32:16 *fp32:16 i32:16", XBLOCK=1024)
@triton.jit
def poi_fused_add_gelu_view(in_out_ptr0, in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = xindex % 768
    tmp0 = tl.load(in_out_ptr0 + x2, xmask)
    tmp1 = tl.load(in_ptr0 + x0, xmask, eviction_policy="evict_last")
    tmp2 = tmp0 + tmp1
    tmp3 = tmp2 * 0.7071067811865476
    tmp4 = 0.5 * tmp2 * (libdevice.erf(tmp3) + 1.0)
    tl.store(in_out_ptr0 + x2, tmp2, xmask)
    tl.store(out_ptr0 + x2, tmp4, xmask)


@kernel("*fp32:16 *fp32:16 *fp32:16 i32", XBLOCK=512)
@triton.jit
def poi_fused_cat_constant_pad(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex % 17
    x1 = (xindex // 17) % 33
    x2 = xindex // 561
    first = (x0 < 8) & xmask
    tmp0 = tl.load(in_ptr0 + (x0 + 8 * x1 + 264 * x2), first, other=0.0)
    tmp1 = tl.load(in_ptr1 + ((-8) + x0 + 9 * x1 + 297 * x2), (x0 >= 8) & xmask, other=0.0)
    tl.store(out_ptr0 + xindex, tl.where(x0 < 8, tmp0, tmp1), xmask)


@kernel("*fp32:16 *i64:16 *fp32:16 i32", XBLOCK=256)
@triton.jit
def poi_fused_index_max_pool(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex % 64
    x1 = xindex // 64
    tmp0 = tl.load(in_ptr1 + x1, xmask, eviction_policy="evict_last")
    tmp1 = tl.where(tmp0 < 0, tmp0 + 1000, tmp0)
    tl.device_assert(((0 <= tmp1) & (tmp1 < 1000)) | ~xmask, "index out of bounds: 0 <= tmp1 < 1000")
    tmp2 = tl.load(in_ptr0 + (x0 + 64 * tmp1), xmask)
    tmp3 = tl.load(in_ptr0 + (x0 + 64 * tmp1 + 1), xmask)
    tl.store(out_ptr0 + xindex, tl.maximum(tmp2, tmp3), xmask)


@kernel("*fp32:16 *fp32:16 *fp32:16 *fp32:16 i32 i32", XBLOCK=8, RBLOCK=512, warps=8)
@kernel("*fp32:16 *fp32:16 *fp32:16 *fp32:16 i32 i32", name="red_fused_native_layer_norm_narrow", XBLOCK=64, RBLOCK=16, warps=8)
@triton.jit
def red_fused_native_layer_norm(in_ptr0, out_ptr0, out_ptr1, out_ptr2, xnumel, rnumel, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rbase = tl.arange(0, RBLOCK)[None, :]
    count = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    mean = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    square = tl.zeros([XBLOCK, RBLOCK], tl.float32)
    for roffset in range(0, rnumel, RBLOCK):
        rindex = roffset + rbase
        mask = (rindex < rnumel) & xmask
        tmp0 = tl.load(in_ptr0 + (rindex + rnumel * xindex), mask, eviction_policy="evict_first", other=0.0)
        new = count + 1
        delta = tmp0 - mean
        next_mean = mean + delta / new
        mean = tl.where(mask, next_mean, mean)
        square = tl.where(mask, square + delta * (tmp0 - next_mean), square)
        count = tl.where(mask, new, count)
    total = tl.sum(count, 1)[:, None]
    average = tl.sum(mean * count, 1)[:, None] / total
    spread = tl.sum(square + count * (mean - average) * (mean - average), 1)[:, None]
    tl.store(out_ptr0 + xindex, average, xmask)
    tl.store(out_ptr1 + xindex, libdevice.rsqrt(spread / total + 1e-05), xmask)
    tl.store(out_ptr2 + xindex, spread, xmask)


@kernel("*fp32:16 *i1:16 *fp32:16 i32 i32", XBLOCK=1, RBLOCK=1024, warps=8)
@kernel("*fp32:16 *i1:16 *fp32:16 i32 i32", name="per_fused_softmax_dropout_rows", XBLOCK=8, RBLOCK=128, warps=2)
@triton.jit
def per_fused_softmax_dropout(in_ptr0, out_ptr0, out_ptr1, seed, xnumel, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    rindex = tl.arange(0, RBLOCK)[None, :]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + (rindex + RBLOCK * xindex), xmask, other=0.0)
    top = tl.max(tl.where(xmask, tmp0, float("-inf")), 1)[:, None]
    power = libdevice.exp(tmp0 - top)
    total = tl.sum(tl.where(xmask, power, 0), 1)[:, None]
    keep = tl.rand(seed, rindex + RBLOCK * xindex) > 0.1
    tl.store(out_ptr0 + (rindex + RBLOCK * xindex), keep, xmask)
    tl.store(out_ptr1 + (rindex + RBLOCK * xindex), keep.to(tl.float32) * (power / total) * 1.1111111111111112, xmask)


def compile_for(target, entry):
    """The PTX of one kernel."""
    _, function, signature, constants, warps, stages, _ = entry
    words = signature.split()
    names = [name for name in function.arg_names if name not in constants]
    types = {name: word.split(":")[0] for name, word in zip(names, words, strict=True)}
    types |= dict.fromkeys(constants, "constexpr")
    types = {name: types[name] for name in function.arg_names}
    divisible = {
        (function.arg_names.index(name),): [["tt.divisibility", 16]]
        for name, word in zip(names, words, strict=True)
        if word.endswith(":16")
    }
    source = ASTSource(function, types, constants, divisible)
    options = {"num_warps": warps, "num_stages": stages}
    return triton.compile(source, target=GPUTarget("cuda", target, 32), options=options).asm["ptx"]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for target in map(int, sys.argv[2:]):
        for entry in KERNELS:
            name, *_, least = entry
            if target >= least:
                (folder / f"{name}.sm_{target}.ptx").write_text(compile_for(target, entry))


if __name__ == "__main__":
    main()
