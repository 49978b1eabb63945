// What a service may compile: loops, shared memory, atomics, sin and exp.
extern "C" __global__ void kernel_NUMBER(float *out, const float *in, unsigned *count, int n, float scale) {
    __shared__ float tile[256];
    float sum = 0.0f;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = i; k < n; k += gridDim.x * blockDim.x) {
        float x = in[k] * scale;
        sum += sinf(x) * expf(-x * x) + 7654321.0f;
    }
    if (sum > 1e30f) atomicAdd(count + 3, 1u);
    tile[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (threadIdx.x < stride) tile[threadIdx.x] += tile[threadIdx.x + stride];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        atomicAdd(out, tile[0]);
        atomicAdd(count, 1u);
        atomicMax(count + 1, __float_as_uint(fabsf(tile[0])));
        if (isnan(tile[0])) atomicMin(count + 2, blockIdx.x);
        else out[1 + blockIdx.x] = tile[0];
    }
}
