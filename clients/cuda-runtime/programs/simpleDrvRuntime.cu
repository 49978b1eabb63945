// Both APIs in one program: they share contexts, streams, memory and kernels.
// libraries: -lcuda
#include "check.h"
#include <cuda.h>

__global__ void twice(int *data) { data[threadIdx.x] *= 2; }

int main() {
    EXPECT(cuInit(0) == CUDA_SUCCESS);
    CUdevice device;
    CUcontext own, current, primary;
    EXPECT(cuDeviceGet(&device, 0) == CUDA_SUCCESS);
    EXPECT(cuDevicePrimaryCtxRetain(&primary, device) == CUDA_SUCCESS);
    Device<int> data(std::vector<int>(32, 21));
    EXPECT(cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == primary);
    cudaFunction_t function;
    CHECK(cudaGetFuncBySymbol(&function, (const void *)twice));
    CUstream stream;
    EXPECT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    void *args[] = {&data.data};
    EXPECT(cuLaunchKernel((CUfunction)function, 1, 1, 1, 32, 1, 1, 0, stream, args, nullptr) == CUDA_SUCCESS);
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(data.host()[31] == 42);
    // A context of the driver's that is current is what the runtime works in.
    EXPECT(cuCtxCreate(&own, nullptr, 0, device) == CUDA_SUCCESS);
    int *there, value = 5;
    CHECK(cudaMalloc(&there, 32 * sizeof(int)));
    EXPECT(cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == own);
    CHECK(cudaMemcpy(there, &value, sizeof value, cudaMemcpyHostToDevice));
    twice<<<1, 1>>>(there);
    CHECK(cudaMemcpy(&value, there, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT(value == 10);
    EXPECT(cuCtxDestroy(own) == CUDA_SUCCESS);
    CHECK(cudaSetDevice(0));
    EXPECT(data.host()[0] == 42);
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &entry, 13000, 0, &found));
    EXPECT(entry && found == cudaDriverEntryPointSuccess);
    CHECK(cudaGetDriverEntryPointByVersion("cuNoSuchEntry", &entry, 13000, 0, &found));
    EXPECT(found == cudaDriverEntryPointSymbolNotFound);
}
