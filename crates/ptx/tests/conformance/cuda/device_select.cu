// CUB's selection, run lengths and histogram of a whole array.
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_select.cuh>

size_t unique(const int* in, int* out, int* count, int n) {
    size_t bytes = 0;
    cub::DeviceSelect::Unique(nullptr, bytes, in, out, count, n);
    return bytes;
}

size_t runs(const char* in, char* out, int* lengths, int* count, int n) {
    size_t bytes = 0;
    cub::DeviceRunLengthEncode::Encode(nullptr, bytes, in, out, lengths, count, n);
    return bytes;
}

size_t histogram(const unsigned char* in, int* bins, int n) {
    size_t bytes = 0;
    cub::DeviceHistogram::HistogramEven(nullptr, bytes, in, bins, 257, 0, 256, n);
    return bytes;
}
