// cuda::ptx of sm_100 and later: tensor memory, cluster launch control, wide accesses.
#include <cuda/ptx>
#include <cuda_fp16.h>

namespace ptx = cuda::ptx;

#if __CUDA_ARCH__ >= 1000
__global__ void launch_control(int* out) {
    __shared__ alignas(16) unsigned char answer[16];
    __shared__ uint64_t barrier;
    ptx::clusterlaunchcontrol_try_cancel(answer, &barrier);
    struct alignas(16) Answer { uint64_t low, high; } copied = *reinterpret_cast<Answer*>(answer);
    if (ptx::clusterlaunchcontrol_query_cancel_is_canceled(copied)) {
        out[0] = ptx::clusterlaunchcontrol_query_cancel_get_first_ctaid_x<int>(copied);
        int all[4];
        ptx::clusterlaunchcontrol_query_cancel_get_first_ctaid(all, copied);
        out[1] = all[2];
    }
}
struct alignas(32) Wide { double v[4]; };
__global__ void wide(const Wide* __restrict__ in, Wide* out) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void pairs(const float2* in, float2* out) {
    out[0] = __ffma2_rn(in[0], in[1], in[2]);
    out[1] = __fadd2_rn(in[0], in[1]);
    out[2] = __fmul2_rz(in[0], in[1]);
}
__global__ void minima(const float* in, float* out, unsigned long long* wide) {
    asm("min.f32 %0, %1, %2, %3;" : "=f"(out[0]) : "f"(in[0]), "f"(in[1]), "f"(in[2]));
    asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;");
    asm volatile("{ .reg .b128 q; mov.b128 q, {%0, %1}; mov.b128 {%0, %1}, q; }" : "+l"(wide[0]), "+l"(wide[1]));
    asm volatile("st.async.release.gpu.global.u32 [%0], %1;" :: "l"(wide), "r"(3));
    __shared__ alignas(8) char tile[64];
    ptx::st_bulk(tile, 64, ptx::n32_t<0>());
    ptx::mbarrier_init((uint64_t*)tile, 1);
}
#endif

#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL) || defined(__CUDA_ARCH_FEAT_SM110_ALL)
__global__ void tensor_memory(unsigned* out, uint64_t a, uint64_t b, unsigned instruction, bool accumulate) {
    __shared__ uint32_t where;
    __shared__ uint64_t barrier;
    ptx::tcgen05_alloc(ptx::cta_group_1, &where, 128);
    ptx::tcgen05_relinquish_alloc_permit(ptx::cta_group_1);
    uint32_t memory = where;
    const uint32_t lanes4[4] = {1, 2, 3, 4}, lanes8[8] = {};
    uint32_t few[1], some[8], many[32];
    ptx::tcgen05_cp_128x256b(ptx::cta_group_1, memory, a);
    ptx::tcgen05_cp_4x256b(ptx::cta_group_2, memory, a);
    ptx::tcgen05_shift_down(ptx::cta_group_1, memory);
    ptx::tcgen05_mma(ptx::kind_f16, ptx::cta_group_1, memory, a, b, instruction, lanes4, accumulate, ptx::n32_t<3>());
    ptx::tcgen05_mma(ptx::kind_tf32, ptx::cta_group_2, memory, a, b, instruction, lanes8, accumulate, ptx::n32_t<0>());
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f8f6f4.collector::a::fill [%0], [%1], %2, %3, p; }" :: "r"(memory), "r"(memory + 64), "l"(b), "r"(instruction), "r"((int)accumulate));
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; tcgen05.mma.sp.cta_group::1.kind::f8f6f4 [%0], %1, %2, [%3], %4, p; }" :: "r"(memory), "l"(a), "l"(b), "r"(memory + 8), "r"(instruction), "r"((int)accumulate));
    ptx::tcgen05_mma_ws_collector_b0_fill(ptx::cta_group_1, ptx::kind_f16, memory, a, b, instruction, accumulate, b);
    ptx::tcgen05_mma_block_scale_vec_1x(ptx::kind_mxf8f6f4, ptx::cta_group_1, memory, a, b, instruction, memory, memory + 4, accumulate);
    ptx::tcgen05_commit(ptx::cta_group_1, &barrier);
    ptx::tcgen05_commit_multicast(ptx::cta_group_2, &barrier, 3);
    ptx::tcgen05_fence_before_thread_sync();
    ptx::tcgen05_fence_after_thread_sync();
    ptx::tcgen05_ld_32x32b(few, memory);
    ptx::tcgen05_ld_16x256b(some, memory);
    ptx::tcgen05_ld_16x64b_pack_16b(many, memory);
    ptx::tcgen05_wait_ld();
    ptx::tcgen05_st_32x32b(memory, some);
    ptx::tcgen05_st_16x128b_unpack_16b(memory, many);
    ptx::tcgen05_wait_st();
    ptx::tcgen05_dealloc(ptx::cta_group_1, memory, 128);
    out[0] = few[0] + some[3] + many[31];
}
__global__ void gather_scatter(const void* map, int x, unsigned short mask) {
    __shared__ alignas(128) char tile[1024];
    __shared__ uint64_t barrier;
    const int32_t five[5] = {x, 1, 2, 3, 4}, two[2] = {x, 3};
    ptx::cp_async_bulk_tensor_tile_gather4(ptx::space_shared, ptx::space_global, tile, map, five, &barrier);
    ptx::cp_async_bulk_tensor_tile_scatter4(ptx::space_global, ptx::space_shared, map, five, tile);
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, ptx::cta_group_2, tile, map, two, &barrier, mask);
    unsigned m[4];
    asm volatile("ldmatrix.sync.aligned.m16n16.x2.trans.shared::cta.b8 {%0, %1, %2, %3}, [%4];" : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"((unsigned)__cvta_generic_to_shared(tile)));
    asm volatile("stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%0], {%1};" :: "r"((unsigned)__cvta_generic_to_shared(tile)), "r"(m[0] + m[3]));
}
__global__ void tiny(const float* in, unsigned* out) {
    asm volatile("{ .reg .b8 x; cvt.rn.satfinite.e2m1x2.f32 x, %1, %2; cvt.u32.u8 %0, x; }" : "=r"(out[0]) : "f"(in[0]), "f"(in[1]));
    asm volatile("cvt.rs.satfinite.e4m3x4.f32 %0, {%1, %2, %3, %4}, %5;" : "=r"(out[1]) : "f"(in[0]), "f"(in[1]), "f"(in[2]), "f"(in[3]), "r"(out[2]));
}
#endif
