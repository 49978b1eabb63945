// cudaLaunchKernelEx: priorities, a cooperative launch, a launch that may start early.
#include "check.h"
#include <cooperative_groups.h>

__global__ void pass(int *data, int n) {
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    for (int i = grid.thread_rank(); i < n; i += grid.size())
        data[i] = i + 1;
    grid.sync();
    if (grid.thread_rank() == 0)
        for (int i = 1; i < n; i++)
            data[0] += data[i];
}

__global__ void next(int *data) { data[1] = data[0] * 2; }

int main() {
    int n = 500, least, greatest, priority;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(greatest <= least);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    CHECK(cudaStreamGetPriority(stream, &priority));
    EXPECT(priority == greatest);
    Device<int> data(n);
    cudaLaunchAttribute attribute[2];
    attribute[0].id = cudaLaunchAttributeCooperative;
    attribute[0].val.cooperative = 1;
    attribute[1].id = cudaLaunchAttributePriority;
    attribute[1].val.priority = greatest;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(2), config.blockDim = dim3(64), config.stream = stream;
    config.attrs = attribute, config.numAttrs = 2;
    CHECK(cudaLaunchKernelEx(&config, pass, data.data, n));
    attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute[0].val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = dim3(1), config.blockDim = dim3(1), config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, next, data.data));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(data.host()[0] == n * (n + 1) / 2 && data.host()[1] == n * (n + 1));
}
