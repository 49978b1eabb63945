// The kernels of the bench `cpu_device` in OpenCL C: the same algorithms, with the parameters of
// the PTX. A warp has no name here, so that the scan goes through local memory as a whole.

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void matmul_shared(__global const float *a, __global const float *b, __global float *c, uint n) {
    __local float tile_a[16][16], tile_b[16][16];
    const uint x = get_local_id(0), y = get_local_id(1);
    const uint row = get_group_id(1) * 16 + y, column = get_group_id(0) * 16 + x;
    float sum = 0;
    for (uint tile = 0; tile < n; tile += 16) {
        tile_a[y][x] = a[row * n + tile + x];
        tile_b[y][x] = b[(tile + y) * n + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < 16; k++) sum = mad(tile_a[y][k], tile_b[k][x], sum);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + column] = sum;
}

__kernel void vecadd(__global const float *a, __global const float *b, __global float *c, uint n) {
    const uint i = get_global_id(0);
    if (i < n) c[i] = a[i] + b[i];
}

__kernel void saxpy(float a, __global const float *x, __global float *y, uint n) {
    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = mad(a, x[i], y[i]);
}

float block_sum(float value, __local float *sums) {
    const uint thread = get_local_id(0);
    sums[thread] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 128; step > 0; step /= 2) {
        if (thread < step) sums[thread] += sums[thread + step];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float sum = sums[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return sum;
}

// The number of blocks that are done stands behind their sums.
__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void reduction(__global const float *values, __global volatile float *partial, __global float *total, uint n) {
    __local float sums[256];
    __local uint is_last;
    const uint thread = get_local_id(0), blocks = get_num_groups(0);
    float sum = 0;
    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) sum += values[i];
    sum = block_sum(sum, sums);
    __global volatile uint *done = (__global volatile uint *)partial + blocks;
    if (thread == 0) {
        partial[get_group_id(0)] = sum;
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        is_last = atomic_inc(done) == blocks - 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!is_last) return;
    sum = 0;
    for (uint i = thread; i < blocks; i += 256) sum += partial[i];
    sum = block_sum(sum, sums);
    if (thread == 0) {
        *done = 0;
        *total = sum;
    }
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void scan(__global const uint *values, __global uint *out) {
    __local uint sums[2][256];
    const uint thread = get_local_id(0), i = get_global_id(0);
    uint x = values[i], from = 0;
    sums[0][thread] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 1; step < 256; step *= 2) {
        if (thread >= step) x += sums[from][thread - step];
        from ^= 1;
        sums[from][thread] = x;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    out[i] = x;
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void histogram(__global const uchar *data, __global uint *counts, uint n) {
    __local uint own[256];
    const uint thread = get_local_id(0);
    own[thread] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) atomic_inc(&own[data[i]]);
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&counts[thread], own[thread]);
}

__kernel void stencil(__global const float *from, __global float *to, uint width, uint height) {
    const uint x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height) return;
    const uint left = x > 0 ? x - 1 : 0, right = min(x + 1, width - 1);
    const uint above = y > 0 ? y - 1 : 0, below = min(y + 1, height - 1);
    const float sum = from[y * width + left] + from[y * width + right] + from[above * width + x] + from[below * width + x];
    to[y * width + x] = sum * 0.25f;
}

__kernel __attribute__((reqd_work_group_size(32, 8, 1)))
void transpose(__global const float *from, __global float *to, uint width, uint height) {
    __local float tile[32][33];
    const uint tx = get_local_id(0), ty = get_local_id(1);
    const uint left = get_group_id(0) * 32, top = get_group_id(1) * 32;
    for (uint y = ty; y < 32; y += 8)
        if (left + tx < width && top + y < height) tile[y][tx] = from[(top + y) * width + left + tx];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint y = ty; y < 32; y += 8)
        if (top + tx < height && left + y < width) to[(left + y) * height + top + tx] = tile[tx][y];
}

float block_max(float value, __local float *values) {
    const uint thread = get_local_id(0);
    values[thread] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 128; step > 0; step /= 2) {
        if (thread < step) values[thread] = max(values[thread], values[thread + step]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float most = values[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return most;
}

// Rows of at most 1024 floats, four a thread.
__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void softmax(__global float *to, __global const float *from, uint from_stride, uint to_stride, uint rows, uint columns,
             __global float *unused, __global float *unused_too) {
    __local float shared[256];
    const uint thread = get_local_id(0);
    for (uint row = get_group_id(0); row < rows; row += get_num_groups(0)) {
        float x[4], most = -INFINITY, sum = 0;
        for (uint k = 0; k < 4; k++) {
            const uint column = thread + 256 * k;
            x[k] = column < columns ? from[row * from_stride + column] : -INFINITY;
            most = max(most, x[k]);
        }
        most = block_max(most, shared);
        for (uint k = 0; k < 4; k++) sum += x[k] = native_exp2((x[k] - most) * 1.442695041f);
        sum = block_sum(sum, shared);
        for (uint k = 0; k < 4; k++) {
            const uint column = thread + 256 * k;
            if (column < columns) to[row * to_stride + column] = x[k] / sum;
        }
    }
}

// Rows of at most 1024 halves, four a thread.
__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void layer_norm(__global const half *from, __global half *to, __global const half *weight, __global const half *bias,
                __global float *means, __global float *scales, uint stride, float epsilon, uint columns,
                __global float *unused, __global float *unused_too) {
    __local float shared[256];
    const uint thread = get_local_id(0), row = get_group_id(0);
    float x[4], sum = 0, squares = 0;
    for (uint k = 0; k < 4; k++) {
        const uint column = thread + 256 * k;
        x[k] = column < columns ? vload_half(row * stride + column, from) : 0;
        sum += x[k];
    }
    const float mean = block_sum(sum, shared) / columns;
    for (uint k = 0; k < 4; k++) {
        const float centred = thread + 256 * k < columns ? x[k] - mean : 0;
        squares += centred * centred;
    }
    const float scale = 1 / sqrt(block_sum(squares, shared) / columns + epsilon);
    if (thread == 0) {
        means[row] = mean;
        scales[row] = scale;
    }
    for (uint k = 0; k < 4; k++) {
        const uint column = thread + 256 * k;
        if (column < columns)
            vstore_half((x[k] - mean) * scale * vload_half(column, weight) + vload_half(column, bias), row * stride + column, to);
    }
}
