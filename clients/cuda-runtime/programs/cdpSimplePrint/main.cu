// flags: -rdc=true
// libraries: -lcudadevrt
// A kernel that launches another.
#include "../check.h"

__global__ void child(int *data, int by) { data[threadIdx.x] += by; }
__global__ void parent(int *data) {
    if (threadIdx.x == 0)
        child<<<1, 32>>>(data, 5);
}

int main() {
    Device<int> data(std::vector<int>(32, 1));
    parent<<<1, 32>>>(data.data);
    CHECK(cudaDeviceSynchronize());
    EXPECT(data.host()[31] == 6);
}
