// Managed memory and managed variables, which host and device write in turn.
#include "check.h"

__managed__ int total = 7;
__managed__ float weights[4];

__global__ void work(int *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        data[i] = (int)(data[i] * weights[i % 4]);
        atomicAdd(&total, 1);
    }
}

int main() {
    const int n = 1000;
    int *data;
    CHECK(cudaMallocManaged(&data, n * sizeof(int)));
    for (int i = 0; i < n; i++)
        data[i] = i;
    for (int i = 0; i < 4; i++)
        weights[i] = i + 1;
    cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
    CHECK(cudaMemAdvise(data, n * sizeof(int), cudaMemAdviseSetPreferredLocation, device));
    CHECK(cudaMemPrefetchAsync(data, n * sizeof(int), device, 0, 0));
    work<<<(n + 127) / 128, 128>>>(data, n);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++)
        EXPECT(data[i] == i * (i % 4 + 1));
    EXPECT(total == 7 + n);
    total = 0;
    work<<<1, 32>>>(data, 32);
    CHECK(cudaDeviceSynchronize());
    EXPECT(total == 32);
    cudaPointerAttributes what;
    CHECK(cudaPointerGetAttributes(&what, data));
    EXPECT(what.type == cudaMemoryTypeManaged);
    CHECK(cudaFree(data));
}
