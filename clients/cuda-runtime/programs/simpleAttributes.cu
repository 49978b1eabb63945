// What the runtime says of kernels, and dynamic shared memory above 48 KB.
#include "check.h"

__global__ void __launch_bounds__(256) fixed(int *data) {
    __shared__ int shared[300];
    shared[threadIdx.x] = threadIdx.x;
    __syncthreads();
    data[threadIdx.x] = shared[255 - threadIdx.x];
}

__global__ void dynamic(int *data, int count) {
    extern __shared__ int large[];
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        large[i] = i;
    __syncthreads();
    if (threadIdx.x == 0)
        *data = large[count - 1];
}

int main() {
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, fixed));
    EXPECT(attributes.sharedSizeBytes == 1200 && attributes.maxThreadsPerBlock == 256);
    EXPECT(attributes.numRegs > 0 && attributes.binaryVersion >= 80 && attributes.ptxVersion >= 80);
    Device<int> data(256);
    fixed<<<1, 256>>>(data.data);
    CHECK(cudaGetLastError());
    EXPECT(data.host()[0] == 255);
    int optin = 0;
    CHECK(cudaDeviceGetAttribute(&optin, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    EXPECT(optin > 48 << 10);
    int count = optin / 4;
    dynamic<<<1, 128, optin>>>(data.data, count);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, optin));
    CHECK(cudaFuncSetAttribute(dynamic, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    dynamic<<<1, 128, optin>>>(data.data, count);
    CHECK(cudaGetLastError());
    EXPECT(data.host()[0] == count - 1);
    CHECK(cudaFuncGetAttributes(&attributes, dynamic));
    EXPECT(attributes.maxDynamicSharedSizeBytes == optin);
    const char *name;
    CHECK(cudaFuncGetName(&name, (const void *)dynamic));
    EXPECT(name && name[0]);
}
