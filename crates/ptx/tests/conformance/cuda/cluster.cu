// Launch bounds with clusters, and what a kernel can ask about them.
#include <cooperative_groups.h>
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__global__ void __launch_bounds__(128, 2, 8) bounded(int* out) { out[threadIdx.x] = __clusterRelativeBlockRank(); }
__global__ void __cluster_dims__(4) fixed(int* out) {
    out[0] = __clusterDimIsSpecified() + __clusterDim().x + __clusterIdx().y + __clusterGridDimInClusters().z + __clusterSizeInBlocks();
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    __cluster_barrier_arrive_relaxed();
    __cluster_barrier_wait();
}
__global__ void __block_size__((256, 1, 1), (2, 1, 1)) sized(int* out) { *out = blockDim.x; }
__global__ void after(int* out) {
    cudaGridDependencySynchronize();
    out[threadIdx.x]++;
    cudaTriggerProgrammaticLaunchCompletion();
}
#endif
