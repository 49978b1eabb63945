// flags: -gencode arch=compute_80,code=sm_80
// A program without PTX: its launch fails, and the program goes on. On a GPU it runs.
#include "check.h"

__global__ void set(int *data) { *data = 42; }

int main() {
    Device<int> data(std::vector<int>(1, 7));
    cudaDeviceProp p;
    CHECK(cudaGetDeviceProperties(&p, 0));
    set<<<1, 1>>>(data.data);
    cudaError_t error = cudaGetLastError();
    if (p.integrated && p.name[0] == 'C') // the CPU device
        EXPECT(error == cudaErrorNoKernelImageForDevice && data.host()[0] == 7);
    else
        EXPECT(error == cudaSuccess && data.host()[0] == 42);
}
