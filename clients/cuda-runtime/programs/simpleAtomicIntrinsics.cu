// Atomic operations of all kinds on shared counters.
#include "check.h"

__global__ void all(int *data, unsigned long long *wide, float *sum) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&data[0], 10);
    atomicSub(&data[1], 10);
    atomicExch(&data[2], i);
    atomicMax(&data[3], i);
    atomicMin(&data[4], i);
    atomicInc((unsigned *)&data[5], 17);
    atomicDec((unsigned *)&data[6], 137);
    atomicCAS(&data[7], i - 1, i);
    atomicAnd(&data[8], 2 * i + 7);
    atomicOr(&data[9], 1 << (i % 31));
    atomicXor(&data[10], i);
    atomicAdd(wide, 1ull << 20);
    atomicAdd(sum, 0.5f);
}

int main() {
    const int n = 256 * 64;
    std::vector<int> start = {0, 0, 0, -1 << 30, 1 << 30, 0, 0, 0, 0xff, 0, 0xff};
    Device<int> data(start);
    Device<unsigned long long> wide(std::vector<unsigned long long>(1, 0));
    Device<float> sum(std::vector<float>(1, 0));
    all<<<64, 256>>>(data.data, wide.data, sum.data);
    CHECK(cudaGetLastError());
    std::vector<int> d = data.host();
    int increments = 0, decrements = 0, bits = 0xff;
    for (int i = 0; i < n; i++) {
        increments = increments >= 17 ? 0 : increments + 1;
        decrements = decrements == 0 || decrements > 137 ? 137 : decrements - 1;
        bits ^= i;
    }
    EXPECT(d[0] == 10 * n && d[1] == -10 * n);
    EXPECT(d[2] >= 0 && d[2] < n);
    EXPECT(d[3] == n - 1 && d[4] == 0);
    EXPECT(d[5] == increments && d[6] == decrements);
    EXPECT(d[7] >= 0 && d[7] < n);
    EXPECT(d[8] == 7 || d[8] == 1 || d[8] == 0 || (d[8] & ~0xff) == 0);
    EXPECT(d[9] == 0x7fffffff && d[10] == bits);
    EXPECT(wide.host()[0] == (unsigned long long)n << 20);
    EXPECT(sum.host()[0] == n * 0.5f);
}
