// Sums: by shared memory, by shuffles, and by blocks of any power of two.
#include "check.h"

template <int threads> __global__ void by_shared(const int *in, int *out, int n) {
    extern __shared__ int partial[];
    int sum = 0;
    for (int i = blockIdx.x * threads + threadIdx.x; i < n; i += gridDim.x * threads)
        sum += in[i];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = threads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = partial[0];
}

__global__ void by_shuffles(const int *in, int *out, int n) {
    __shared__ int warps[32];
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    for (int half = 16; half > 0; half /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, half);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0;
        for (int half = 16; half > 0; half /= 2)
            sum += __shfl_xor_sync(0xffffffff, sum, half);
        if (threadIdx.x == 0)
            out[blockIdx.x] = sum;
    }
}

int main() {
    const int n = 100003, blocks = 8;
    std::vector<int> data(n);
    int wanted = 0;
    for (int i = 0; i < n; i++)
        wanted += data[i] = (i * 37) % 101 - 50;
    Device<int> in(data), out(blocks);
    for (int which = 0; which < 3; which++) {
        CHECK(cudaMemset(out.data, 0xff, blocks * sizeof(int)));
        if (which == 0)
            by_shared<64><<<blocks, 64, 64 * sizeof(int)>>>(in.data, out.data, n);
        else if (which == 1)
            by_shared<512><<<blocks, 512, 512 * sizeof(int)>>>(in.data, out.data, n);
        else
            by_shuffles<<<blocks, 256>>>(in.data, out.data, n);
        CHECK(cudaGetLastError());
        int sum = 0;
        for (int part : out.host())
            sum += part;
        EXPECT(sum == wanted);
    }
}
