// A product of matrices of half numbers by the warp's matrix instructions.
#include "check.h"
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__global__ void multiply(const half *a, const half *b, float *c, int n) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(left, a + blockIdx.y * 16 * n + k, n);
        wmma::load_matrix_sync(right, b + blockIdx.x * 16 * n + k, n);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, sum, n, wmma::mem_row_major);
}

int main() {
    const int n = 64;
    std::vector<half> a(n * n), b(n * n);
    for (int i = 0; i < n * n; i++)
        a[i] = __float2half(i % 5 - 2), b[i] = __float2half(i % 3);
    Device<half> da(a), db(b);
    Device<float> dc(n * n);
    multiply<<<dim3(n / 16, n / 16), 32>>>(da.data, db.data, dc.data, n);
    CHECK(cudaGetLastError());
    std::vector<float> c = dc.host();
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++) {
            float sum = 0;
            for (int k = 0; k < n; k++)
                sum += __half2float(a[y * n + k]) * __half2float(b[x * n + k]);
            EXPECT(c[y * n + x] == sum);
        }
}
