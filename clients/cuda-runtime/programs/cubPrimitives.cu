// CUB: device-wide sums, sorts and scans, and a block's own.
#include "check.h"
#include <algorithm>
#include <cub/cub.cuh>

__global__ void block_sums(const int *in, int *out) {
    using Reduce = cub::BlockReduce<int, 128>;
    using Scan = cub::BlockScan<int, 128>;
    __shared__ union {
        typename Reduce::TempStorage reduce;
        typename Scan::TempStorage scan;
    } storage;
    int value = in[threadIdx.x], prefix;
    int sum = Reduce(storage.reduce).Sum(value);
    __syncthreads();
    Scan(storage.scan).ExclusiveSum(value, prefix);
    out[threadIdx.x] = prefix;
    if (threadIdx.x == 0)
        out[128] = sum;
}

template <typename Call> void with_storage(Call call) {
    size_t bytes = 0;
    CHECK(call(nullptr, bytes));
    Device<char> storage(bytes ? bytes : 1);
    CHECK(call(storage.data, bytes));
}

int main() {
    const int n = 30011;
    std::vector<int> host(n);
    for (int i = 0; i < n; i++)
        host[i] = (i * 7919) % 10007 - 5000;
    Device<int> in(host), out(n), sum(1);
    with_storage([&](void *s, size_t &b) { return cub::DeviceReduce::Sum(s, b, in.data, sum.data, n); });
    int wanted = 0;
    for (int value : host)
        wanted += value;
    EXPECT(sum.host()[0] == wanted);
    with_storage([&](void *s, size_t &b) { return cub::DeviceRadixSort::SortKeys(s, b, in.data, out.data, n); });
    std::vector<int> sorted = host;
    std::sort(sorted.begin(), sorted.end());
    EXPECT(out.host() == sorted);
    with_storage([&](void *s, size_t &b) { return cub::DeviceScan::InclusiveSum(s, b, in.data, out.data, n); });
    std::vector<int> scanned = out.host();
    for (int i = 0, running = 0; i < n; i++)
        EXPECT(scanned[i] == (running += host[i]));
    Device<int> block(129);
    block_sums<<<1, 128>>>(in.data, block.data);
    CHECK(cudaGetLastError());
    std::vector<int> b = block.host();
    for (int i = 0, running = 0; i < 128; running += host[i++])
        EXPECT(b[i] == running);
}
