// cuda::ptx from sm_80 to sm_90: bulk and tensor copies, mbarriers, clusters.
#include <cuda/ptx>

namespace ptx = cuda::ptx;

__global__ void everywhere(int* out, unsigned long long* wide) {
    out[0] = ptx::get_sreg_tid_x() + ptx::get_sreg_nwarpid() + ptx::get_sreg_smid() + ptx::get_sreg_lanemask_lt();
    out[1] = ptx::get_sreg_dynamic_smem_size() + ptx::get_sreg_warpid() + ptx::get_sreg_clock();
    wide[0] = ptx::get_sreg_globaltimer() + ptx::get_sreg_clock64() + ptx::get_sreg_gridid();
    ptx::fence(ptx::sem_sc, ptx::scope_gpu);
    ptx::fence(ptx::sem_acq_rel, ptx::scope_sys);
    if (out[2] == 5) ptx::exit();
    if (out[2] == 6) ptx::trap();
}

#if __CUDA_ARCH__ >= 800
__global__ void barriers(unsigned long long* out) {
    __shared__ uint64_t barrier;
    ptx::mbarrier_init(&barrier, 32);
    uint64_t state = ptx::mbarrier_arrive(&barrier);
    state ^= ptx::mbarrier_arrive_no_complete(&barrier, 3);
    while (!ptx::mbarrier_test_wait(&barrier, state)) {}
    while (!ptx::mbarrier_test_wait_parity(&barrier, 1u)) {}
    ptx::cp_async_mbarrier_arrive(&barrier);
    ptx::cp_async_mbarrier_arrive_noinc(&barrier);
    ptx::mbarrier_inval(&barrier);
    *out = state;
}
#endif

#if __CUDA_ARCH__ >= 900
__global__ void cluster_barriers(unsigned long long* out) {
    __shared__ uint64_t barrier;
    __shared__ uint64_t word;
    ptx::mbarrier_init(&barrier, 32);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    uint64_t state = ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &barrier);
    state ^= ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_shared, &barrier, 2);
    state ^= ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &barrier, 64);
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, &barrier);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, &barrier, 16);
    while (!ptx::mbarrier_try_wait(&barrier, state)) {}
    while (!ptx::mbarrier_try_wait(&barrier, state, 100u)) {}
    while (!ptx::mbarrier_try_wait(ptx::sem_acquire, ptx::scope_cluster, &barrier, state)) {}
    while (!ptx::mbarrier_try_wait_parity(&barrier, 0u)) {}
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cta, &barrier, 1u, 7u)) {}
    ptx::barrier_cluster_arrive();
    ptx::barrier_cluster_wait();
    ptx::barrier_cluster_arrive(ptx::sem_relaxed);
    ptx::barrier_cluster_wait(ptx::sem_acquire);
    ptx::st_async(&word, uint64_t(5), &barrier);
    ptx::red_async(ptx::op_add, &word, uint64_t(5), &barrier);
    const uint32_t small[2] = {1, 2};
    ptx::st_async((uint32_t*)&word, small, &barrier);
    out[0] = state + ptx::getctarank(ptx::space_cluster, &word) + ptx::get_sreg_cluster_ctarank() + ptx::get_sreg_cluster_nctaid_x();
}

__global__ void bulk(void* global, const void* from, int bytes) {
    __shared__ alignas(128) char tile[1024];
    __shared__ uint64_t barrier;
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, from, bytes, &barrier);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_shared, tile + 512, tile, 64, &barrier);
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, global, tile, bytes);
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, (int32_t*)global, (const int32_t*)tile, bytes);
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_min, (uint64_t*)global, (const uint64_t*)tile, bytes);
    ptx::cp_reduce_async_bulk(ptx::space_cluster, ptx::space_shared, ptx::op_inc, (uint32_t*)tile, (const uint32_t*)tile, bytes, &barrier);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<2>());
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    ptx::fence_proxy_async();
    ptx::fence_proxy_async(ptx::space_shared);
    ptx::fence_proxy_alias();
}

__global__ void tensors(const void* map, const void* from, int x, int y) {
    __shared__ alignas(128) char tile[1024];
    __shared__ uint64_t barrier;
    const int32_t one[1] = {x}, two[2] = {x, y}, three[3] = {x, y, 3}, four[4] = {x, y, 3, 4}, five[5] = {x, y, 3, 4, 5};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, map, one, &barrier);
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, map, three, &barrier);
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, map, five, &barrier);
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, map, two, tile);
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, map, four, tile);
    ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_add, map, two, tile);
    ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_xor_op, map, three, tile);
    ptx::fence_proxy_tensormap_generic(ptx::sem_release, ptx::scope_gpu);
    ptx::fence_proxy_tensormap_generic(ptx::sem_acquire, ptx::scope_sys, map, ptx::n32_t<128>());
    ptx::tensormap_cp_fenceproxy(ptx::sem_release, ptx::scope_cta, const_cast<void*>(from), tile, ptx::n32_t<128>());
}
#endif

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
__global__ void only_90a(void* map, const void* from, int bytes, unsigned short mask) {
    __shared__ alignas(128) char tile[1024];
    __shared__ uint64_t barrier;
    const int32_t two[2] = {bytes, 1};
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, from, bytes, &barrier, mask);
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, map, two, &barrier, mask);
    ptx::tensormap_replace_global_address(ptx::space_global, map, from);
    ptx::tensormap_replace_rank(ptx::space_shared, tile, 3);
    ptx::tensormap_replace_box_dim(ptx::space_global, map, ptx::n32_t<2>(), 64);
    ptx::tensormap_replace_elemtype(ptx::space_global, map, ptx::n32_t<5>());
    ptx::tensormap_replace_swizzle_mode(ptx::space_shared, tile, ptx::n32_t<1>());
}
#endif
