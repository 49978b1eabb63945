// Events: between streams, and as clocks.
#include "check.h"

__global__ void increment(int *data, int n, int by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] += by;
}

int main() {
    const int n = 1 << 16;
    Device<int> data(std::vector<int>(n, 5));
    cudaEvent_t start, middle, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreateWithFlags(&middle, cudaEventDisableTiming));
    CHECK(cudaEventCreate(&stop));
    cudaStream_t first, second;
    CHECK(cudaStreamCreate(&first));
    CHECK(cudaStreamCreate(&second));
    CHECK(cudaEventRecord(start, first));
    increment<<<n / 256, 256, 0, first>>>(data.data, n, 26);
    CHECK(cudaEventRecord(middle, first));
    CHECK(cudaStreamWaitEvent(second, middle, 0));
    increment<<<n / 256, 256, 0, second>>>(data.data, n, 100);
    CHECK(cudaEventRecord(stop, second));
    CHECK(cudaEventSynchronize(stop));
    CHECK(cudaEventQuery(stop));
    float milliseconds = -1;
    CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
    EXPECT(milliseconds >= 0);
    EXPECT(cudaEventElapsedTime(&milliseconds, start, middle) == cudaErrorInvalidResourceHandle);
    EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    for (int value : data.host())
        EXPECT(value == 131);
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(middle));
    CHECK(cudaEventDestroy(stop));
}
