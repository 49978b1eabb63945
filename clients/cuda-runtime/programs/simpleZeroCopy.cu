// Memory of the host that kernels reach: allocated, registered, and as the host's own pointer.
#include "check.h"

__global__ void add(const int *a, const int *b, int *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

int main() {
    const int n = 4096;
    int *a, *c, *device_a, *device_b, *device_c;
    CHECK(cudaSetDeviceFlags(cudaDeviceMapHost));
    CHECK(cudaHostAlloc(&a, n * sizeof(int), cudaHostAllocMapped));
    CHECK(cudaHostAlloc(&c, n * sizeof(int), cudaHostAllocMapped | cudaHostAllocPortable));
    int *b = (int *)aligned_alloc(4096, n * sizeof(int));
    CHECK(cudaHostRegister(b, n * sizeof(int), cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device_a, a, 0));
    CHECK(cudaHostGetDevicePointer(&device_b, b, 0));
    CHECK(cudaHostGetDevicePointer(&device_c, c, 0));
    for (int i = 0; i < n; i++)
        a[i] = i, b[i] = 3 * i, c[i] = -1;
    add<<<n / 128, 128>>>(device_a, device_b, device_c, n);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++)
        EXPECT(c[i] == 4 * i);
    unsigned flags = 0;
    CHECK(cudaHostGetFlags(&flags, c));
    EXPECT(flags & cudaHostAllocMapped);
    cudaPointerAttributes what;
    CHECK(cudaPointerGetAttributes(&what, a));
    EXPECT(what.type == cudaMemoryTypeHost && what.hostPointer == a && what.devicePointer == device_a);
    int local;
    CHECK(cudaPointerGetAttributes(&what, &local));
    EXPECT(what.type == cudaMemoryTypeUnregistered);
    CHECK(cudaHostUnregister(b));
    EXPECT(cudaHostUnregister(b) == cudaErrorHostMemoryNotRegistered);
    cudaGetLastError();
    CHECK(cudaFreeHost(a));
    CHECK(cudaFreeHost(c));
}
