// assert in a kernel: the launch fails, and so does all that follows until the device is reset.
#include "check.h"
#include <cassert>
#include <unistd.h>

__global__ void all_below(int limit) { assert((int)(blockIdx.x * blockDim.x + threadIdx.x) < limit); }
__global__ void one(int *data) { *data = 1; }

int main() {
    all_below<<<2, 32>>>(64);
    CHECK(cudaDeviceSynchronize());
    int errors = dup(2); // the message of the assertion is no part of this
    freopen("/dev/null", "w", stderr);
    all_below<<<2, 32>>>(60);
    EXPECT(cudaDeviceSynchronize() == cudaErrorAssert);
    void *memory;
    EXPECT(cudaMalloc(&memory, 16) == cudaErrorAssert);
    EXPECT(cudaGetLastError() == cudaErrorAssert);
    dup2(errors, 2);
    CHECK(cudaDeviceReset());
    Device<int> data(std::vector<int>(1, 0));
    one<<<1, 1>>>(data.data);
    EXPECT(data.host()[0] == 1);
}
