// Cooperative groups: blocks, tiles, coalesced threads, grids, clusters.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

__global__ void tiles(const int* in, int* out, unsigned long long* wide) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto small = cg::tiled_partition<4>(warp);
    auto odd = cg::binary_partition(warp, threadIdx.x % 3 == 0);
    auto labels = cg::labeled_partition(warp, in[threadIdx.x] & 7);
    int value = in[block.thread_rank()];
    value += cg::reduce(warp, value, cg::plus<int>());
    value += cg::reduce(small, value, cg::greater<int>());
    value += cg::reduce(odd, value, cg::bit_xor<int>());
    value += cg::exclusive_scan(small, value);
    value += cg::inclusive_scan(labels, value, cg::less<int>());
    value += warp.shfl_xor(value, 5) + small.shfl_down(value, 1) + warp.ballot(value > 3);
    value += small.any(value) + small.all(value) + warp.match_any(value);
    block.sync();
    auto active = cg::coalesced_threads();
    if (active.thread_rank() == 0) out[0] = active.size();
    value += active.shfl(value, 0);
    cg::reduce_update_async(warp, cuda::atomic_ref<int, cuda::thread_scope_device>(out[1]), value, cg::plus<int>());
    wide[threadIdx.x] = cg::reduce(warp, wide[threadIdx.x], [](unsigned long long a, unsigned long long b) { return a * b; });
    out[threadIdx.x] = value;
}

__global__ void whole_grid(float* data, int steps) {
    auto grid = cg::this_grid();
    for (int i = 0; i < steps; ++i) {
        data[grid.thread_rank()] += data[(grid.thread_rank() + 1) % grid.size()];
        grid.sync();
    }
    auto token = grid.barrier_arrive();
    data[0] = 0;
    grid.barrier_wait(cuda::std::move(token));
}

__global__ void copy(const int4* in, int4* out) {
    __shared__ int4 tile[256];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, tile, in, sizeof(tile));
    cg::memcpy_async(block, tile, 128, in + 4, 64);
    cg::wait_prior<1>(block);
    cg::wait(block);
    cg::invoke_one(block, [&] { out[1000] = tile[3]; });
    out[block.thread_rank()] = tile[255 - block.thread_rank()];
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__global__ void __cluster_dims__(2, 2, 1) neighbours(int* out) {
    __shared__ int mine;
    auto cluster = cg::this_cluster();
    mine = cluster.block_rank();
    cluster.sync();
    int* theirs = cluster.map_shared_rank(&mine, (cluster.block_rank() + 1) % cluster.num_blocks());
    out[cluster.thread_rank()] = *theirs + cluster.query_shared_rank(theirs) + cluster.dim_blocks().x;
    cluster.barrier_wait(cluster.barrier_arrive());
}
#endif
