// The sum, the least and the greatest of an array. Pattern: reductions with a loop that strides
// over the grid, shuffles in a warp, shared memory between warps, and atomics between blocks.
#include <algorithm>
#include <climits>

#include "../program.h"

const int COUNT = 6000000;

static std::vector<int> input() {
    Random random(1);
    std::vector<int> values(COUNT);
    for (int &value : values) value = int(random.next());
    return values;
}

// What a step adds to each value, by exclusive or.
static int mask(int step) { return int(uint32_t(step) * 0x9e3779b1); }

struct Totals {
    unsigned long long sum;
    int least, greatest;
    // Of the totals of all steps.
    uint32_t digest;

    BOTH Totals() : digest(0) { clear(); }

    BOTH void clear() {
        sum = 0;
        least = INT_MAX;
        greatest = INT_MIN;
    }

    BOTH void finish() {
        digest = digest * 31 + uint32_t(sum) + uint32_t(sum >> 32);
        digest = (digest * 31 + uint32_t(least)) * 31 + uint32_t(greatest);
        clear();
    }
};

// Every bit of the digest counts.
static void report_digest(uint32_t digest) {
    report(std::vector<uint32_t>{digest});
    report(std::vector<uint32_t>{digest << 12});
}

#ifdef __CUDACC__

const int THREADS = 256;
const int BLOCKS = 160;

struct Part {
    long long sum;
    int least, greatest;
};

__device__ Part reduced(Part part) {
    for (int apart = 16; apart > 0; apart /= 2) {
        part.sum += __shfl_down_sync(~0u, part.sum, apart);
        part.least = min(part.least, __shfl_down_sync(~0u, part.least, apart));
        part.greatest = max(part.greatest, __shfl_down_sync(~0u, part.greatest, apart));
    }
    return part;
}

__global__ void reduce(const int *values, Totals *totals, int mask) {
    __shared__ Part parts[THREADS / 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Part none = {0, INT_MAX, INT_MIN};
    Part part = none;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < COUNT; i += THREADS * BLOCKS) {
        int value = values[i] ^ mask;
        part.sum += value;
        part.least = min(part.least, value);
        part.greatest = max(part.greatest, value);
    }
    part = reduced(part);
    if (lane == 0) parts[warp] = part;
    __syncthreads();
    if (warp > 0) return;
    part = reduced(lane < THREADS / 32 ? parts[lane] : none);
    if (lane == 0) {
        atomicAdd(&totals->sum, (unsigned long long)part.sum);
        atomicMin(&totals->least, part.least);
        atomicMax(&totals->greatest, part.greatest);
    }
}

__global__ void finish(Totals *totals) { totals->finish(); }

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<int> values(input());
    Device<Totals> totals(std::vector<Totals>(1));
    for (int i = 0; i < steps; i++) {
        reduce<<<BLOCKS, THREADS>>>(values, totals, mask(i));
        finish<<<1, 1>>>(totals);
    }
    report_digest(totals.host()[0].digest);
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<int> values = input();
    Totals totals;
    for (int n = 0; n < steps; n++) {
        long long sum = 0;
        int least = INT_MAX, greatest = INT_MIN, changes = mask(n);
#pragma omp parallel for reduction(+ : sum) reduction(min : least) reduction(max : greatest)
        for (int i = 0; i < COUNT; i++) {
            int value = values[i] ^ changes;
            sum += value;
            least = std::min(least, value);
            greatest = std::max(greatest, value);
        }
        totals.sum = sum;
        totals.least = least;
        totals.greatest = greatest;
        totals.finish();
    }
    report_digest(totals.digest);
}

#endif
