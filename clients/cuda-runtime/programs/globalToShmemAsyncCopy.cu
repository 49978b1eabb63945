// Copies from global to shared memory that do not pass through registers, in a pipeline.
#include "check.h"
#include <cuda_pipeline.h>

__global__ void stages(const float4 *in, float *out, int tiles) {
    __shared__ float4 buffer[2][64];
    float sum = 0;
    for (int tile = 0; tile < tiles + 1; tile++) {
        if (tile < tiles)
            __pipeline_memcpy_async(&buffer[tile % 2][threadIdx.x], &in[tile * 64 + threadIdx.x], sizeof(float4));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        if (tile > 0) {
            float4 v = buffer[(tile - 1) % 2][63 - threadIdx.x];
            sum += v.x + v.y + v.z + v.w;
        }
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}

int main() {
    const int tiles = 9;
    std::vector<float4> host(tiles * 64);
    for (int i = 0; i < tiles * 64; i++)
        host[i] = make_float4(i, 1, 2, 3);
    Device<float4> in(host);
    Device<float> out(64);
    stages<<<1, 64>>>(in.data, out.data, tiles);
    CHECK(cudaGetLastError());
    std::vector<float> got = out.host();
    for (int t = 0; t < 64; t++) {
        float sum = 0;
        for (int tile = 0; tile < tiles; tile++)
            sum += tile * 64 + 63 - t + 6;
        EXPECT(got[t] == sum);
    }
}
