// CUB's algorithms of one warp, whole and in parts.
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

template <typename T, int lanes>
__global__ void all(const T* in, T* out, int valid) {
    using Reduce = cub::WarpReduce<T, lanes>;
    using Scan = cub::WarpScan<T, lanes>;
    constexpr int warps = 128 / lanes;
    __shared__ typename Reduce::TempStorage reduce[warps];
    __shared__ typename Scan::TempStorage scan[warps];
    int warp = threadIdx.x / lanes;
    T value = in[threadIdx.x];
    T sum = Reduce(reduce[warp]).Sum(value, valid);
    T before, upto;
    Scan(scan[warp]).Scan(value, upto, before, T(0), [](T a, T b) { return a < b ? b : a; });
    out[threadIdx.x] = sum + before + upto;
}

template __global__ void all<int, 32>(const int*, int*, int);
template __global__ void all<unsigned long long, 16>(const unsigned long long*, unsigned long long*, int);
template __global__ void all<float, 7>(const float*, float*, int);
template __global__ void all<double, 32>(const double*, double*, int);
template __global__ void all<signed char, 8>(const signed char*, signed char*, int);

__global__ void sort_lanes(int* keys, float* values) {
    using Sort = cub::WarpMergeSort<int, 2, 32, float>;
    using Exchange = cub::WarpExchange<float, 2, 32>;
    __shared__ typename Sort::TempStorage sort;
    __shared__ typename Exchange::TempStorage exchange;
    int key[2] = {keys[threadIdx.x * 2], keys[threadIdx.x * 2 + 1]};
    float value[2] = {values[threadIdx.x], values[threadIdx.x + 32]};
    Exchange(exchange).StripedToBlocked(value, value);
    Sort(sort).StableSort(key, value, [](int a, int b) { return (a & 15) < (b & 15); });
    keys[threadIdx.x * 2] = key[0], keys[threadIdx.x * 2 + 1] = key[1];
    values[threadIdx.x * 2] = value[0], values[threadIdx.x * 2 + 1] = value[1];
}
