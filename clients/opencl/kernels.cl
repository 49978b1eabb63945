// Kernels as an OpenCL programmer writes them: what the CUDA driver loads of them is PTX by clang
// and libclc.

__kernel void multiply(int width, int inner, __global const float *a, __global const float *b,
                       __global float *c) {
    int row = get_global_id(1), column = get_global_id(0);
    float sum = 0;
    for (int k = 0; k < inner; k++)
        sum += a[row * inner + k] * b[k * width + column];
    c[row * width + column] = sum;
}

#define TILE 16

__kernel void multiply_tiled(int width, int inner, __global const float *a, __global const float *b,
                             __global float *c) {
    __local float left[TILE][TILE], right[TILE][TILE];
    int x = get_local_id(0), y = get_local_id(1);
    int row = get_group_id(1) * TILE + y, column = get_group_id(0) * TILE + x;
    float sum = 0;
    for (int tile = 0; tile < inner; tile += TILE) {
        left[y][x] = a[row * inner + tile + x];
        right[y][x] = b[(tile + y) * width + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < TILE; k++)
            sum = mad(left[y][k], right[k][x], sum);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * width + column] = sum;
}

__kernel void transpose(int width, int height, __global const float *in, __global float *out) {
    // A column more keeps the columns of a tile in different banks.
    __local float tile[TILE][TILE + 1];
    int x = get_local_id(0), y = get_local_id(1);
    int left = get_group_id(0) * TILE, top = get_group_id(1) * TILE;
    tile[y][x] = in[(top + y) * width + left + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    out[(left + y) * height + top + x] = tile[x][y];
}

__kernel void copy_with_offset(__global const float *in, __global float *out, int offset) {
    int i = get_global_id(0) + offset;
    out[i] = in[i];
}

__kernel void histogram(__global const uint *values, __global volatile uint *counts) {
    __local uint own[16];
    if (get_local_id(0) < 16)
        own[get_local_id(0)] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_inc(&own[values[get_global_id(0)] % 16]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) < 16)
        atomic_add(&counts[get_local_id(0)], own[get_local_id(0)]);
}

__kernel void length_of_vectors(__global const float4 *in, __global float *out) {
    float4 v = in[get_global_id(0)];
    out[get_global_id(0)] = native_sqrt(dot(v, v)) + clamp(v.x, 0.0f, 1.0f) + fabs(v.y);
}
