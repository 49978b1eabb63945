// CUB's algorithms of one block.
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cuda/std/functional>

constexpr int threads = 128;
constexpr int each = 3;

template <typename T, cub::BlockReduceAlgorithm algorithm>
__device__ T reduce(T value) {
    using Reduce = cub::BlockReduce<T, threads, algorithm>;
    __shared__ typename Reduce::TempStorage storage;
    T sum = Reduce(storage).Sum(value);
    __syncthreads();
    return sum;
}

__global__ void reduce_all(const float* in, const double* wide, float* out) {
    float value = in[threadIdx.x];
    float a = reduce<float, cub::BLOCK_REDUCE_WARP_REDUCTIONS>(value);
    float b = reduce<float, cub::BLOCK_REDUCE_RAKING>(value);
    double c = reduce<double, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>(wide[threadIdx.x]);
    if (threadIdx.x == 0) out[0] = a + b + float(c);
}

__global__ void scan_and_store(const int* in, int* out, int count) {
    using Load = cub::BlockLoad<int, threads, each, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Store = cub::BlockStore<int, threads, each, cub::BLOCK_STORE_TRANSPOSE>;
    using Scan = cub::BlockScan<int, threads, cub::BLOCK_SCAN_RAKING>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Scan::TempStorage scan;
    } storage;
    int items[each];
    Load(storage.load).Load(in, items, count, -1);
    __syncthreads();
    int total;
    Scan(storage.scan).ExclusiveSum(items, items, total);
    __syncthreads();
    Store(storage.store).Store(out, items, count);
    if (threadIdx.x == 0) out[count] = total;
}

__global__ void sort_pairs(unsigned* keys, short* values) {
    using Sort = cub::BlockRadixSort<unsigned, threads, each, short>;
    __shared__ typename Sort::TempStorage storage;
    unsigned key[each];
    short value[each];
    for (int i = 0; i < each; ++i) {
        key[i] = keys[threadIdx.x * each + i];
        value[i] = values[threadIdx.x * each + i];
    }
    Sort(storage).SortDescending(key, value, 3, 29);
    cub::StoreDirectStriped<threads>(threadIdx.x, keys, key);
    cub::StoreDirectStriped<threads>(threadIdx.x, values, value);
}

struct Nearer {
    __device__ bool operator()(double a, double b) const { return fabs(a) < fabs(b); }
};

__global__ void merge_sort(double* data) {
    using Sort = cub::BlockMergeSort<double, threads, each>;
    __shared__ typename Sort::TempStorage storage;
    double key[each];
    cub::LoadDirectBlocked(threadIdx.x, data, key);
    Sort(storage).Sort(key, Nearer());
    cub::StoreDirectBlocked(threadIdx.x, data, key);
}

__global__ void heads_and_histogram(const unsigned char* in, int* flags, unsigned* bins) {
    using Discontinuity = cub::BlockDiscontinuity<unsigned char, threads>;
    using Histogram = cub::BlockHistogram<unsigned char, threads, each, 256, cub::BLOCK_HISTO_ATOMIC>;
    using Exchange = cub::BlockExchange<unsigned char, threads, each>;
    __shared__ typename Discontinuity::TempStorage heads;
    __shared__ typename Histogram::TempStorage histogram;
    __shared__ typename Exchange::TempStorage exchange;
    __shared__ unsigned counts[256];
    unsigned char items[each];
    int flag[each];
    cub::LoadDirectBlocked(threadIdx.x, in, items);
    Discontinuity(heads).FlagHeads(flag, items, cuda::std::not_equal_to<>());
    cub::StoreDirectBlocked(threadIdx.x, flags, flag);
    Exchange(exchange).BlockedToStriped(items, items);
    Histogram(histogram).Histogram(items, counts);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += threads) atomicAdd(bins + i, counts[i]);
}
