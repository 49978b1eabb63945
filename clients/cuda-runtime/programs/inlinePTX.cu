// Instructions as text in a kernel: the lane, a byte permutation, and a carry chain.
#include "check.h"

__global__ void lanes(unsigned *out) {
    unsigned lane, swapped, low, high;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("prmt.b32 %0, %1, 0, 0x0123;" : "=r"(swapped) : "r"(threadIdx.x));
    asm("{ add.cc.u32 %0, %2, %3; addc.u32 %1, 0, 0; }" : "=r"(low), "=r"(high) : "r"(~0u), "r"(threadIdx.x));
    unsigned *mine = out + threadIdx.x * 4;
    mine[0] = lane, mine[1] = swapped, mine[2] = low, mine[3] = high;
}

int main() {
    const int n = 80;
    Device<unsigned> out(n * 4);
    lanes<<<1, n>>>(out.data);
    CHECK(cudaGetLastError());
    std::vector<unsigned> got = out.host();
    for (unsigned i = 0; i < n; i++) {
        EXPECT(got[i * 4] == i % 32 && got[i * 4 + 1] == i << 24);
        EXPECT(got[i * 4 + 2] == i - 1 && got[i * 4 + 3] == (i > 0));
    }
}
