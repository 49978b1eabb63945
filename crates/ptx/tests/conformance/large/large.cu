// Sorting, reducing and scanning for many types: one module of megabytes, to
// measure the front end on (`benches/front_end.rs`).
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_sort.cuh>

template <typename K, typename V>
size_t all(const K* keys, K* sorted, const V* values, V* moved, int n, const int* offsets) {
    size_t sum = 0, bytes = 0;
    cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, sorted, values, moved, n), sum += bytes;
    cub::DeviceRadixSort::SortKeysDescending(nullptr, bytes, keys, sorted, n), sum += bytes;
    cub::DeviceSegmentedSort::SortKeys(nullptr, bytes, keys, sorted, n, 7, offsets, offsets + 1), sum += bytes;
    cub::DeviceReduce::Sum(nullptr, bytes, keys, sorted, n), sum += bytes;
    cub::DeviceReduce::Max(nullptr, bytes, values, moved, n), sum += bytes;
    cub::DeviceScan::InclusiveSum(nullptr, bytes, keys, sorted, n), sum += bytes;
    return sum;
}

template size_t all(const int*, int*, const float*, float*, int, const int*);
template size_t all(const unsigned short*, unsigned short*, const int*, int*, int, const int*);
template size_t all(const long long*, long long*, const double*, double*, int, const int*);
template size_t all(const float*, float*, const char*, char*, int, const int*);
template size_t all(const double*, double*, const short*, short*, int, const int*);
template size_t all(const unsigned long long*, unsigned long long*, const long long*, long long*, int, const int*);
template size_t all(const unsigned char*, unsigned char*, const unsigned*, unsigned*, int, const int*);
