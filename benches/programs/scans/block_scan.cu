// Sums of all values up to each, of whole numbers that wrap. Pattern: scans by a tree in shared
// memory: one kernel scans blocks, a second the sums of the blocks, and a third adds those.
#include "../program.h"

const int COUNT = 2000000;

static std::vector<uint32_t> input() {
    Random random(1);
    std::vector<uint32_t> values(COUNT);
    for (uint32_t &value : values) value = uint32_t(random.next());
    return values;
}

#ifdef __CUDACC__

const int THREADS = 1024;
const int CHUNK = 2 * THREADS;
const int CHUNKS = (COUNT + CHUNK - 1) / CHUNK;
static_assert(CHUNKS <= CHUNK, "one block scans the sums of all");

// Scans each chunk in place, and notes its sum if there is a place for it.
__global__ void scan(uint32_t *values, int count, uint32_t *sums) {
    __shared__ uint32_t tree[CHUNK];
    int t = threadIdx.x, low = blockIdx.x * CHUNK + t, high = low + THREADS;
    uint32_t a = low < count ? values[low] : 0, b = high < count ? values[high] : 0;
    tree[t] = a;
    tree[t + THREADS] = b;
    int apart = 1;
    for (int nodes = THREADS; nodes > 0; nodes /= 2) {
        __syncthreads();
        if (t < nodes) {
            int left = apart * (2 * t + 1) - 1, right = apart * (2 * t + 2) - 1;
            tree[right] += tree[left];
        }
        apart *= 2;
    }
    if (t == 0) {
        if (sums) sums[blockIdx.x] = tree[CHUNK - 1];
        tree[CHUNK - 1] = 0;
    }
    for (int nodes = 1; nodes <= THREADS; nodes *= 2) {
        apart /= 2;
        __syncthreads();
        if (t < nodes) {
            int left = apart * (2 * t + 1) - 1, right = apart * (2 * t + 2) - 1;
            uint32_t sum = tree[left];
            tree[left] = tree[right];
            tree[right] += sum;
        }
    }
    __syncthreads();
    // The tree has the sums of the values before each.
    if (low < count) values[low] = tree[t] + a;
    if (high < count) values[high] = tree[t + THREADS] + b;
}

__global__ void add(uint32_t *values, int count, const uint32_t *sums) {
    int i = blockIdx.x * CHUNK + threadIdx.x;
    if (blockIdx.x == 0) return;
    uint32_t sum = sums[blockIdx.x - 1];
    if (i < count) values[i] += sum;
    if (i + THREADS < count) values[i + THREADS] += sum;
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<uint32_t> values(input()), sums(CHUNKS);
    for (int i = 0; i < steps; i++) {
        scan<<<CHUNKS, THREADS>>>(values, COUNT, sums);
        scan<<<1, THREADS>>>(sums, CHUNKS, nullptr);
        add<<<CHUNKS, THREADS>>>(values, COUNT, sums);
    }
    report(values.host());
}

#else

#include <omp.h>

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv), threads = omp_get_max_threads();
    std::vector<uint32_t> values = input(), sums(threads);
    for (int n = 0; n < steps; n++) {
#pragma omp parallel num_threads(threads)
        {
            int thread = omp_get_thread_num();
            int start = int64_t(COUNT) * thread / threads;
            int end = int64_t(COUNT) * (thread + 1) / threads;
            uint32_t own = 0;
            for (int i = start; i < end; i++) own += values[i];
            sums[thread] = own;
#pragma omp barrier
            uint32_t sum = 0;
            for (int before = 0; before < thread; before++) sum += sums[before];
            for (int i = start; i < end; i++) values[i] = sum += values[i];
        }
    }
    report(values);
}

#endif
