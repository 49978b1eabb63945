// Thrust: sort, sort by key, reduce, scan, and a transformation by a lambda.
// flags: --extended-lambda
#include "check.h"
#include <algorithm>
#include <numeric>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

int main() {
    const int n = 20000;
    std::vector<unsigned> keys(n);
    unsigned seed = 1;
    for (auto &key : keys)
        key = seed = seed * 1664525u + 1013904223u;
    thrust::device_vector<unsigned> device(keys.begin(), keys.end());
    thrust::device_vector<int> values(n);
    thrust::sequence(values.begin(), values.end());
    thrust::sort_by_key(device.begin(), device.end(), values.begin());
    std::vector<unsigned> sorted(n);
    std::vector<int> order(n);
    thrust::copy(device.begin(), device.end(), sorted.begin());
    thrust::copy(values.begin(), values.end(), order.begin());
    EXPECT(std::is_sorted(sorted.begin(), sorted.end()));
    for (int i = 0; i < n; i++)
        EXPECT(keys[order[i]] == sorted[i]);
    thrust::transform(values.begin(), values.end(), values.begin(), [] __device__(int x) { return x % 10; });
    EXPECT(thrust::reduce(values.begin(), values.end(), 0) == n / 10 * 45);
    thrust::inclusive_scan(values.begin(), values.end(), values.begin());
    EXPECT(values[n - 1] == n / 10 * 45);
}
