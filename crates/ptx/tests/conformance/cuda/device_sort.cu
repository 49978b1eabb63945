// CUB's radix sort of a whole array.
#include <cub/device/device_radix_sort.cuh>

size_t sort(const unsigned* in, unsigned* out, int n) {
    size_t bytes = 0;
    cub::DeviceRadixSort::SortKeys(nullptr, bytes, in, out, n);
    return bytes;
}
