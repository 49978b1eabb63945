// What goes wrong is reported where CUDA reports it, with its number and its name.
#include "check.h"
#include <cstring>

__global__ void touch(int *data, size_t at) { data[at] = 1; }
__global__ void __launch_bounds__(64) small(int *data) { data[threadIdx.x] = threadIdx.x; }

int main() {
    Device<int> data(64);
    touch<<<1, 2048>>>(data.data, 0);
    EXPECT(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
    EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration);
    EXPECT(cudaGetLastError() == cudaSuccess);
    touch<<<0, 32>>>(data.data, 0);
    EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration);
    touch<<<1, 32, 1 << 20>>>(data.data, 0);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    void *memory = nullptr;
    EXPECT(cudaMalloc(&memory, ~(size_t)0 >> 8) == cudaErrorMemoryAllocation);
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
    EXPECT(cudaMalloc(nullptr, 16) == cudaErrorInvalidValue);
    EXPECT(cudaSetDevice(99) == cudaErrorInvalidDevice);
    EXPECT(cudaMemcpy(data.data, data.data, 4, (cudaMemcpyKind)77) == cudaErrorInvalidMemcpyDirection);
    EXPECT(cudaGetLastError() == cudaErrorInvalidMemcpyDirection);
    cudaFuncAttributes attributes;
    EXPECT(cudaFuncGetAttributes(&attributes, &memory) == cudaErrorInvalidDeviceFunction);
    EXPECT(cudaGetSymbolSize((size_t *)&memory, &memory) == cudaErrorInvalidSymbol);
    cudaGetLastError();
    EXPECT(!strcmp(cudaGetErrorName(cudaErrorInvalidConfiguration), "cudaErrorInvalidConfiguration"));
    EXPECT(!strcmp(cudaGetErrorString(cudaErrorInvalidConfiguration), "invalid configuration argument"));
    EXPECT(!strcmp(cudaGetErrorString(cudaSuccess), "no error"));
    small<<<1, 64>>>(data.data);
    CHECK(cudaGetLastError());
    EXPECT(data.host()[63] == 63);
    // The address of nothing: the fault stays until the device is reset.
    touch<<<1, 1>>>(data.data, (size_t)1 << 40);
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    cudaGetLastError();
}
