// Barriers in shared memory on which threads arrive and later wait.
#include "check.h"
#include <cuda/barrier>

__global__ void halves(int *data) {
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ Barrier full;
    __shared__ int values[128];
    if (threadIdx.x == 0)
        init(&full, blockDim.x);
    __syncthreads();
    for (int round = 0; round < 4; round++) {
        values[threadIdx.x] = data[threadIdx.x] + round;
        auto arrived = full.arrive();
        full.wait(std::move(arrived));
        data[threadIdx.x] = values[(threadIdx.x + 37) % 128];
        full.arrive_and_wait();
    }
}

int main() {
    std::vector<int> host(128);
    for (int i = 0; i < 128; i++)
        host[i] = i * i;
    Device<int> data(host);
    halves<<<1, 128>>>(data.data);
    CHECK(cudaGetLastError());
    std::vector<int> got = data.host();
    for (int i = 0; i < 128; i++)
        EXPECT(got[i] == host[(i + 4 * 37) % 128] + 6);
}
