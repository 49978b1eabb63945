// Memory in stream order, from the default pool and from one of the program's own.
#include "check.h"

__global__ void fill(int *data, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] = value + i;
}

int main() {
    const int n = 10000;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaMemPool_t standard, own;
    CHECK(cudaDeviceGetDefaultMemPool(&standard, 0));
    unsigned long long threshold = ~0ull, read = 0;
    CHECK(cudaMemPoolSetAttribute(standard, cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(cudaMemPoolGetAttribute(standard, cudaMemPoolAttrReleaseThreshold, &read));
    EXPECT(read == threshold);
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPoolCreate(&own, &properties));
    for (int round = 0; round < 5; round++) {
        int *a, *b;
        std::vector<int> host(n);
        CHECK(cudaMallocAsync(&a, n * sizeof(int), stream));
        CHECK(cudaMallocFromPoolAsync(&b, n * sizeof(int), own, stream));
        EXPECT(a && b && a != b);
        fill<<<(n + 255) / 256, 256, 0, stream>>>(a, n, round);
        CHECK(cudaMemcpyAsync(b, a, n * sizeof(int), cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaMemcpyAsync(host.data(), b, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(a, stream));
        CHECK(cudaFreeAsync(b, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; i++)
            EXPECT(host[i] == round + i);
    }
    CHECK(cudaMemPoolTrimTo(own, 0));
    CHECK(cudaMemPoolDestroy(own));
}
