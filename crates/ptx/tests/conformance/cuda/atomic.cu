// cuda::atomic in every order and scope, and the older functions.
#include <cuda/atomic>
#include <cuda/std/atomic>

template <typename T, cuda::thread_scope scope>
__device__ T one(T* at, T value) {
    cuda::atomic_ref<T, scope> cell(*at);
    T sum = cell.load(cuda::memory_order_acquire);
    sum += cell.fetch_add(value, cuda::memory_order_relaxed);
    sum += cell.fetch_sub(value, cuda::memory_order_acq_rel);
    sum += cell.exchange(value, cuda::memory_order_seq_cst);
    T expected = sum;
    cell.compare_exchange_weak(expected, value, cuda::memory_order_release, cuda::memory_order_relaxed);
    cell.store(sum + expected, cuda::memory_order_release);
    return sum;
}

template <typename T>
__global__ void scopes(T* at) {
    T value = one<T, cuda::thread_scope_system>(at, T(1));
    value += one<T, cuda::thread_scope_device>(at, value);
    value += one<T, cuda::thread_scope_block>(at, value);
    at[1] = value;
}
template __global__ void scopes<int>(int*);
template __global__ void scopes<unsigned long long>(unsigned long long*);
template __global__ void scopes<float>(float*);
template __global__ void scopes<double>(double*);
template __global__ void scopes<unsigned short>(unsigned short*);
template __global__ void scopes<signed char>(signed char*);

__global__ void bits(cuda::std::atomic<unsigned>* cell, unsigned* out) {
    out[0] = cell->fetch_and(3u) + cell->fetch_or(8u) + cell->fetch_xor(1u);
    cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
    cell->notify_all();
    cell->wait(0u);
}

__global__ void minimum(cuda::atomic<int>* a, cuda::atomic<long long, cuda::thread_scope_block>* b) {
    a->fetch_min(4);
    a->fetch_max(-4);
    b->fetch_min(4);
    b->fetch_max(-4);
}

__global__ void classic(int* i, unsigned* u, unsigned long long* ull, float* f, double* d, unsigned short* us) {
    __shared__ int shared[32];
    shared[threadIdx.x] = 0;
    __syncthreads();
    int x = atomicAdd(shared + (threadIdx.x & 3), 1) + atomicSub(i, 2) + atomicExch(i + 1, 3);
    x += atomicMin(i, x) + atomicMax(i, x) + atomicAnd(i, x) + atomicOr(i, x) + atomicXor(i, x);
    x += atomicCAS(shared, x, 4) + atomicInc(u, 7) + atomicDec(u, 7);
    x += atomicCAS(us, 1, 2);
    atomicAdd(ull, 5ull), atomicMin(ull, 5ull), atomicMax((long long*)ull, -5ll), atomicCAS(ull, 1ull, 2ull);
    f[1] = atomicAdd(f, 1.5f) + atomicExch(f, 2.0f);
    d[1] = atomicAdd(d, 1.5);
    atomicAdd_system(i, 1), atomicAdd_block(i, 1), atomicExch_block(ull, 1ull), atomicOr_system(u, 2u);
    __threadfence(), __threadfence_block(), __threadfence_system();
    i[2] = x;
}

#if __CUDA_ARCH__ >= 900
__global__ void wide(float4* f, float2* g, __int128* h) {
    f[1] = atomicAdd(f, make_float4(1, 2, 3, 4));
    g[1] = atomicAdd(g, make_float2(1, 2));
    h[0] = atomicCAS(h, h[1], h[2]);
    h[3] = atomicExch(h, h[1]);
}
#endif
