// A product of matrices by tiles in shared memory.
#include "check.h"

const int TILE = 16;

__global__ void multiply(const float *a, const float *b, float *c, int n) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    float sum = 0;
    for (int tile = 0; tile < n / TILE; tile++) {
        as[threadIdx.y][threadIdx.x] = a[y * n + tile * TILE + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(tile * TILE + threadIdx.y) * n + x];
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = sum;
}

int main() {
    const int n = 128;
    std::vector<float> a(n * n), b(n * n);
    for (int i = 0; i < n * n; i++)
        a[i] = i % 7 - 3, b[i] = i % 5 - 2;
    Device<float> da(a), db(b), dc(n * n);
    multiply<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE)>>>(da.data, db.data, dc.data, n);
    CHECK(cudaGetLastError());
    std::vector<float> c = dc.host();
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++) {
            float sum = 0;
            for (int k = 0; k < n; k++)
                sum += a[y * n + k] * b[k * n + x];
            EXPECT(c[y * n + x] == sum); // small integers: exact in any order
        }
}
