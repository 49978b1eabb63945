// Kernels that are templates, with dynamic shared memory of any type.
#include "check.h"

template <typename T> struct Shared {
    __device__ T *get() {
        extern __shared__ char bytes[];
        return (T *)bytes;
    }
};

template <typename T, int factor> __global__ void reverse(T *data) {
    T *shared = Shared<T>().get();
    shared[threadIdx.x] = data[blockIdx.x * blockDim.x + threadIdx.x] * (T)factor;
    __syncthreads();
    data[blockIdx.x * blockDim.x + threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

template <typename T, int factor> void test() {
    const int threads = 96, blocks = 3;
    std::vector<T> host(threads * blocks);
    for (size_t i = 0; i < host.size(); i++)
        host[i] = (T)i;
    Device<T> data(host);
    reverse<T, factor><<<blocks, threads, threads * sizeof(T)>>>(data.data);
    CHECK(cudaGetLastError());
    std::vector<T> got = data.host();
    for (int b = 0; b < blocks; b++)
        for (int t = 0; t < threads; t++)
            EXPECT(got[b * threads + t] == host[b * threads + threads - 1 - t] * (T)factor);
}

int main() {
    test<float, 2>();
    test<double, -3>();
    test<int, 5>();
    test<long long, 7>();
}
