// The sum of two vectors whose length is no multiple of the block.
#include "check.h"

__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

int main() {
    const int n = 50001;
    std::vector<float> a(n), b(n);
    for (int i = 0; i < n; i++)
        a[i] = i * 0.5f, b[i] = n - i;
    Device<float> da(a), db(b), dc(n);
    add<<<(n + 255) / 256, 256>>>(da.data, db.data, dc.data, n);
    CHECK(cudaGetLastError());
    std::vector<float> c = dc.host();
    for (int i = 0; i < n; i++)
        EXPECT(c[i] == a[i] + b[i]);
}
