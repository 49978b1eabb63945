// CUB's reductions and scans over a whole array.
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>

size_t reduce(const float* in, float* out, int n) {
    size_t bytes = 0;
    cub::DeviceReduce::Sum(nullptr, bytes, in, out, n);
    return bytes;
}

size_t smallest(const int* in, cub::KeyValuePair<int, int>* out, int n) {
    size_t bytes = 0;
    cub::DeviceReduce::ArgMin(nullptr, bytes, in, out, n);
    return bytes;
}

size_t scan(const unsigned* in, unsigned* out, int n) {
    size_t bytes = 0;
    cub::DeviceScan::ExclusiveSum(nullptr, bytes, in, out, n);
    return bytes;
}
