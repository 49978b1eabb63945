// The block size that fits best, chosen by the occupancy calculator of the headers.
#include "check.h"

__global__ void square(int *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] *= data[i];
}

int main() {
    const int n = 5000;
    std::vector<int> host(n);
    for (int i = 0; i < n; i++)
        host[i] = i;
    Device<int> data(host);
    int grid = 0, block = 0, blocks = 0;
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, square, 0, 0));
    EXPECT(grid >= 1 && block >= 32 && block <= 1024);
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, square, block, 0));
    EXPECT(blocks >= 1);
    square<<<(n + block - 1) / block, block>>>(data.data, n);
    CHECK(cudaGetLastError());
    std::vector<int> got = data.host();
    for (int i = 0; i < n; i++)
        EXPECT(got[i] == i * i);
}
