// Histograms of bytes: one of each warp in shared memory, merged by atomics.
#include "check.h"

__global__ void count(const uchar4 *data, unsigned *bins, int n) {
    __shared__ unsigned own[4][256];
    for (int i = threadIdx.x; i < 4 * 256; i += blockDim.x)
        own[i / 256][i % 256] = 0;
    __syncthreads();
    unsigned *mine = own[threadIdx.x / 32];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        uchar4 v = data[i];
        atomicAdd(&mine[v.x], 1), atomicAdd(&mine[v.y], 1), atomicAdd(&mine[v.z], 1), atomicAdd(&mine[v.w], 1);
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x)
        atomicAdd(&bins[bin], own[0][bin] + own[1][bin] + own[2][bin] + own[3][bin]);
}

int main() {
    const int n = 40000;
    std::vector<uchar4> host(n);
    std::vector<unsigned> wanted(256, 0);
    for (int i = 0; i < n; i++) {
        host[i] = make_uchar4(i, i * 3, i / 7, i % 11);
        wanted[host[i].x]++, wanted[host[i].y]++, wanted[host[i].z]++, wanted[host[i].w]++;
    }
    Device<uchar4> data(host);
    Device<unsigned> bins(256);
    CHECK(cudaMemset(bins.data, 0, 256 * sizeof(unsigned)));
    count<<<6, 128>>>(data.data, bins.data, n);
    CHECK(cudaGetLastError());
    EXPECT(bins.host() == wanted);
}
