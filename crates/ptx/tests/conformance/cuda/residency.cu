// Hints on what the caches shall keep.
#include <cuda/annotated_ptr>
#include <cuda/discard_memory>

__global__ void hinted(int* data, int n) {
    cuda::annotated_ptr<int, cuda::access_property::persisting> kept(data);
    cuda::annotated_ptr<int, cuda::access_property::streaming> once(data + n);
    kept[threadIdx.x] = once[threadIdx.x];
    cuda::access_property property(data, 128, 1024, cuda::access_property::persisting{}, cuda::access_property::streaming{});
    cuda::annotated_ptr<int, cuda::access_property> dynamic(data, property);
    dynamic[2] = 4;
    cuda::apply_access_property(data, 256, cuda::access_property::persisting{});
    cuda::discard_memory(data + 1024, 512);
    __shared__ int tile[32];
    cuda::annotated_ptr<int, cuda::access_property::shared> local(tile);
    local[threadIdx.x] = *kept.get();
    data[0] = local[31];
    __builtin_assume(n > 4);
    data[1] = __builtin_expect(n, 3) ? *(int*)__builtin_assume_aligned(data, 16) : 0;
}
