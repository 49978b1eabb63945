// Variables in constant and in global memory, by symbol.
#include "check.h"

__constant__ float coefficients[8];
__device__ int counter = 40;
__device__ double table[4] = {1.5, 2.5, 3.5, 4.5};

__global__ void evaluate(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float value = 0;
    for (int k = 7; k >= 0; k--)
        value = value * x[i] + coefficients[k];
    y[i] = value + (float)table[i % 4];
    if (i < 2)
        atomicAdd(&counter, 1);
}

int main() {
    const float host[8] = {1, 0, 2, 0, 0, 0, 0, 0};
    CHECK(cudaMemcpyToSymbol(coefficients, host, sizeof host));
    const float one = 3;
    CHECK(cudaMemcpyToSymbol(coefficients, &one, sizeof one, 1 * sizeof(float)));
    std::vector<float> x(100);
    for (int i = 0; i < 100; i++)
        x[i] = i;
    Device<float> dx(x), dy(100);
    evaluate<<<1, 128>>>(dx.data, dy.data, 100);
    CHECK(cudaGetLastError());
    std::vector<float> y = dy.host();
    for (int i = 0; i < 100; i++)
        EXPECT(y[i] == 1 + 3.0f * i + 2.0f * i * i + i % 4 + 1.5f);
    int count = 0;
    CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    EXPECT(count == 42);
    void *address = nullptr;
    size_t bytes = 0;
    CHECK(cudaGetSymbolAddress(&address, table));
    CHECK(cudaGetSymbolSize(&bytes, table));
    EXPECT(address && bytes == 32);
    EXPECT(cudaMemcpyToSymbol(coefficients, host, sizeof host, 4) == cudaErrorInvalidValue);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
}
