// Cooperative groups: sums by tiles, by coalesced threads, and over the whole grid.
#include "check.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void tiles(int *sums) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int sum = cg::reduce(tile, (int)threadIdx.x, cg::plus<int>());
    if (tile.thread_rank() == 0)
        sums[threadIdx.x / 8] = sum;
}

__global__ void coalesced(int *count) {
    if (threadIdx.x % 3 == 0) {
        auto active = cg::coalesced_threads();
        if (active.thread_rank() == 0)
            atomicAdd(count, (int)active.size());
    }
}

__global__ void rounds(int *data, int n, int *total) {
    cg::grid_group grid = cg::this_grid();
    for (int i = grid.thread_rank(); i < n; i += grid.size())
        data[i] = i;
    grid.sync();
    // What other blocks wrote.
    int sum = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size())
        sum += data[n - 1 - i];
    atomicAdd(total, sum);
}

int main() {
    Device<int> sums(8), count(std::vector<int>(1, 0));
    tiles<<<1, 64>>>(sums.data);
    coalesced<<<1, 96>>>(count.data);
    CHECK(cudaGetLastError());
    std::vector<int> s = sums.host();
    for (int i = 0; i < 8; i++)
        EXPECT(s[i] == 8 * 8 * i + 28);
    EXPECT(count.host()[0] == 32);

    int cooperative = 0, blocks = 0, multiprocessors = 0;
    CHECK(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, 0));
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, rounds, 128, 0));
    EXPECT(cooperative == 1 && blocks >= 1);
    int n = 4096;
    Device<int> data(n), total(std::vector<int>(1, 0));
    void *args[] = {&data.data, &n, &total.data};
    CHECK(cudaLaunchCooperativeKernel(rounds, dim3(multiprocessors), dim3(128), args));
    CHECK(cudaDeviceSynchronize());
    EXPECT(total.host()[0] == n * (n - 1) / 2);
}
