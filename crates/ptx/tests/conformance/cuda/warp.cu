// What the threads of a warp tell one another.
__global__ void shuffle(int* i, float* f, double* d, long long* l, unsigned mask) {
    i[0] = __shfl_sync(mask, i[1], 3) + __shfl_up_sync(mask, i[2], 1, 16) + __shfl_down_sync(~0u, i[3], 2, 8) + __shfl_xor_sync(mask, i[4], 16);
    f[0] = __shfl_sync(mask, f[1], i[0]);
    d[0] = __shfl_xor_sync(~0u, d[1], 4);
    l[0] = __shfl_up_sync(~0u, l[1], i[1]);
}
__global__ void votes(int* out, unsigned mask, unsigned long long* wide) {
    int p = threadIdx.x * 7 % 5 > 2;
    out[0] = __all_sync(mask, p) + __any_sync(mask, p) + __uni_sync(mask, p) + __ballot_sync(mask, p) + __activemask();
    int all;
    out[1] = __match_any_sync(mask, out[2]) + __match_all_sync(mask, out[3], &all) + all;
    out[4] = __match_any_sync(~0u, wide[0]);
    __syncwarp(mask);
    __syncwarp();
    out[5] = __syncthreads_count(p) + __syncthreads_and(p) + __syncthreads_or(p);
#if __CUDA_ARCH__ >= 800
    out[6] = __reduce_add_sync(mask, p) + __reduce_min_sync(mask, out[1]) + __reduce_max_sync(mask, (unsigned)p) + __reduce_xor_sync(mask, (unsigned)p);
#endif
    unsigned lane;
    asm("mov.u32 %0, %laneid;" : "=r"(lane));
    out[lane] = lane;
}
__global__ void reduce(const float* in, float* out, int n) {
    __shared__ float partial[32];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    #pragma unroll
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
        for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        if (threadIdx.x == 0) atomicAdd(out, sum);
    }
}
