// flags: -rdc=true
// A kernel that calls a function of another file, and a variable that both see.
#include "../check.h"

extern __device__ int offset;
__device__ int scaled(int value);

__global__ void apply(int *data) { data[threadIdx.x] = scaled(data[threadIdx.x]) + offset; }

int main() {
    std::vector<int> host(64);
    for (int i = 0; i < 64; i++)
        host[i] = i;
    Device<int> data(host);
    apply<<<1, 64>>>(data.data);
    CHECK(cudaGetLastError());
    std::vector<int> got = data.host();
    for (int i = 0; i < 64; i++)
        EXPECT(got[i] == 3 * i + 17);
}
