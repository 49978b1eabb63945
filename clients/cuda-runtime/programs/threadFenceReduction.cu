// The last block to finish adds up what the others left.
#include "check.h"

__device__ unsigned finished = 0;

__global__ void sum(const int *in, volatile int *partial, int *out, int n) {
    __shared__ int total;
    __shared__ bool last;
    if (threadIdx.x == 0)
        total = 0;
    __syncthreads();
    int mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        mine += in[i];
    atomicAdd(&total, mine);
    __syncthreads();
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = total;
        __threadfence();
        last = atomicInc(&finished, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int all = 0;
        for (unsigned b = 0; b < gridDim.x; b++)
            all += partial[b];
        *out = all;
        finished = 0;
    }
}

int main() {
    const int n = 54321, blocks = 13;
    std::vector<int> host(n);
    int wanted = 0;
    for (int i = 0; i < n; i++)
        wanted += host[i] = i % 17 - 5;
    Device<int> in(host), partial(blocks), out(1);
    for (int round = 0; round < 3; round++) {
        CHECK(cudaMemset(out.data, 0, sizeof(int)));
        sum<<<blocks, 96>>>(in.data, partial.data, out.data, n);
        CHECK(cudaGetLastError());
        EXPECT(out.host()[0] == wanted);
    }
}
