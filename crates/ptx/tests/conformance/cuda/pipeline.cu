// Pipelines: of one thread, shared by a block, and the C functions below them.
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include <cuda_pipeline.h>

namespace cg = cooperative_groups;

__global__ void one_thread(const float4* in, float4* out, int n) {
    __shared__ float4 tile[2][128];
    auto pipe = cuda::make_pipeline();
    for (int i = 0; i < n; ++i) {
        pipe.producer_acquire();
        cuda::memcpy_async(&tile[i & 1][threadIdx.x], in + i * 128 + threadIdx.x, sizeof(float4), pipe);
        pipe.producer_commit();
        cuda::pipeline_consumer_wait_prior<1>(pipe);
        out[i * 128 + threadIdx.x] = tile[~i & 1][threadIdx.x];
        pipe.consumer_release();
    }
}

__global__ void producers_and_consumers(const int* in, int* out, int n) {
    constexpr int stages = 3;
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    __shared__ int tile[stages][64];
    auto block = cg::this_thread_block();
    auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = cuda::make_pipeline(block, &state, role);
    for (int i = 0; i < n; ++i) {
        if (role == cuda::pipeline_role::producer) {
            pipe.producer_acquire();
            cuda::memcpy_async(&tile[i % stages][threadIdx.x], in + i * 64 + threadIdx.x, sizeof(int), pipe);
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            out[i * 64 + threadIdx.x] = tile[i % stages][threadIdx.x - 32];
            pipe.consumer_release();
        }
    }
}

__global__ void primitives(const char* in, int* out) {
    __shared__ alignas(16) int tile[512];
    __pipeline_memcpy_async(tile + threadIdx.x, in + 4 * threadIdx.x, 4);
    __pipeline_memcpy_async(tile + 128, in, 16, 4);
    __pipeline_memcpy_async(tile + 132, in + 64, 8);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __mbarrier_t* barrier = (__mbarrier_t*)(tile + 500);
    __mbarrier_init(barrier, 32);
    __pipeline_arrive_on(barrier);
    auto token = __mbarrier_arrive(barrier);
    while (!__mbarrier_test_wait(barrier, token)) {}
    __mbarrier_inval(barrier);
    out[threadIdx.x] = tile[threadIdx.x];
}
