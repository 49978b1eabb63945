// Products of half and bfloat16 numbers, by pairs and alone.
#include "check.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void halves(const half2 *a, const half2 *b, float *out, int n) {
    half2 sum = __float2half2_rn(0);
    for (int i = threadIdx.x; i < n; i += 32)
        sum = __hfma2(a[i], b[i], sum);
    float total = __low2float(sum) + __high2float(sum);
    for (int step = 16; step > 0; step /= 2)
        total += __shfl_xor_sync(~0u, total, step);
    if (threadIdx.x == 0)
        *out = total;
}

__global__ void bfloats(const float *in, float *out) {
    __nv_bfloat16 x = __float2bfloat16(in[threadIdx.x]);
    out[threadIdx.x] = __bfloat162float(x * x + __float2bfloat16(1));
}

int main() {
    const int n = 256;
    std::vector<half2> a(n), b(n);
    float wanted = 0;
    for (int i = 0; i < n; i++) {
        a[i] = half2(__float2half(i % 4), __float2half(i % 3));
        b[i] = half2(__float2half(2), __float2half(i % 2));
        wanted += i % 4 * 2 + i % 3 * (i % 2);
    }
    Device<half2> da(a), db(b);
    Device<float> out(32);
    halves<<<1, 32>>>(da.data, db.data, out.data, n);
    CHECK(cudaGetLastError());
    EXPECT(out.host()[0] == wanted);
    std::vector<float> in(32);
    for (int i = 0; i < 32; i++)
        in[i] = i / 2.0f;
    Device<float> din(in);
    bfloats<<<1, 32>>>(din.data, out.data);
    CHECK(cudaGetLastError());
    std::vector<float> got = out.host();
    for (int i = 0; i < 15; i++)
        EXPECT(got[i] == in[i] * in[i] + 1); // below 256 / 4: exact
}
