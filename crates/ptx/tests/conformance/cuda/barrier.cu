// Barriers, latches and semaphores of libcu++, in shared and global memory.
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/semaphore>

__global__ void arrive_wait(int* data) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    auto token = barrier.arrive();
    data[threadIdx.x] += 1;
    barrier.wait(cuda::std::move(token));
    barrier.arrive_and_wait();
    if (threadIdx.x & 1) barrier.arrive_and_drop();
    else barrier.wait_parity(threadIdx.x & 2);
}

__global__ void copy(const int* in, int* out, int n) {
    extern __shared__ int tile[];
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    cuda::memcpy_async(tile + threadIdx.x, in + threadIdx.x, sizeof(int), barrier);
    cuda::memcpy_async(tile + blockDim.x + 4 * threadIdx.x, in + 4 * threadIdx.x,
                       cuda::aligned_size_t<16>(16), barrier);
    barrier.arrive_and_wait();
    out[threadIdx.x] = tile[n - threadIdx.x];
}

__device__ cuda::barrier<cuda::thread_scope_device>* everywhere;
__device__ cuda::latch<cuda::thread_scope_device>* once;
__device__ cuda::counting_semaphore<cuda::thread_scope_device, 8>* tickets;

__global__ void across_blocks(int* out) {
    everywhere->arrive_and_wait();
    once->count_down();
    once->wait();
    tickets->acquire();
    *out += 1;
    tickets->release(2);
    if (tickets->try_acquire()) *out += 2;
}
