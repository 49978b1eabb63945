// Copies and kernels in several streams; each stream keeps its own order.
#include "check.h"

__global__ void scale(int *data, int n, int factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] *= factor;
}

int main() {
    const int streams = 4, part = 4096;
    int *host, *device;
    CHECK(cudaMallocHost(&host, streams * part * sizeof(int)));
    CHECK(cudaMalloc(&device, streams * part * sizeof(int)));
    for (int i = 0; i < streams * part; i++)
        host[i] = i;
    cudaStream_t stream[streams];
    for (int s = 0; s < streams; s++)
        CHECK(cudaStreamCreateWithFlags(&stream[s], s % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
    for (int s = 0; s < streams; s++) {
        size_t bytes = part * sizeof(int);
        CHECK(cudaMemcpyAsync(device + s * part, host + s * part, bytes, cudaMemcpyHostToDevice, stream[s]));
        scale<<<part / 128, 128, 0, stream[s]>>>(device + s * part, part, s + 2);
        CHECK(cudaMemcpyAsync(host + s * part, device + s * part, bytes, cudaMemcpyDeviceToHost, stream[s]));
    }
    for (int s = 0; s < streams; s++)
        CHECK(cudaStreamSynchronize(stream[s]));
    for (int i = 0; i < streams * part; i++)
        EXPECT(host[i] == i * (i / part + 2));
    for (int s = 0; s < streams; s++) {
        CHECK(cudaStreamQuery(stream[s]));
        CHECK(cudaStreamDestroy(stream[s]));
    }
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(device));
}
