// A pass of a radix sort over one byte of the keys; four steps sort them. Pattern: histograms in
// shared memory, a scan of the counts, and a stable scatter with ranks from matching lanes.
#include <algorithm>

#include "../program.h"

const int COUNT = 500000;
const int DIGITS = 256;

static std::vector<uint32_t> input() {
    Random random(1);
    std::vector<uint32_t> keys(COUNT);
    for (uint32_t &key : keys) key = uint32_t(random.next());
    return keys;
}

BOTH inline uint32_t digit_of(uint32_t key, int step) { return key >> (step % 4 * 8) & 255; }

#ifdef __CUDACC__

const int WARPS = DIGITS / 32;
const int CHUNK = 16 * DIGITS;
const int CHUNKS = (COUNT + CHUNK - 1) / CHUNK;
const int SCANNERS = 1024;

// One thread per digit; the counts are in the order of digits, then chunks.
__global__ void count(const uint32_t *keys, uint32_t *counts, int step) {
    __shared__ uint32_t local[DIGITS];
    local[threadIdx.x] = 0;
    __syncthreads();
    int start = blockIdx.x * CHUNK, end = min(start + CHUNK, COUNT);
    for (int i = start + threadIdx.x; i < end; i += DIGITS) {
        atomicAdd(&local[digit_of(keys[i], step)], 1);
    }
    __syncthreads();
    counts[threadIdx.x * CHUNKS + blockIdx.x] = local[threadIdx.x];
}

// By one block.
__global__ void scan(uint32_t *counts) {
    __shared__ uint32_t sums[SCANNERS];
    int each = (DIGITS * CHUNKS + SCANNERS - 1) / SCANNERS;
    int start = threadIdx.x * each, end = min(start + each, DIGITS * CHUNKS);
    uint32_t own = 0;
    for (int i = start; i < end; i++) own += counts[i];
    sums[threadIdx.x] = own;
    __syncthreads();
    for (int apart = 1; apart < SCANNERS; apart *= 2) {
        uint32_t before = threadIdx.x >= apart ? sums[threadIdx.x - apart] : 0;
        __syncthreads();
        sums[threadIdx.x] += before;
        __syncthreads();
    }
    uint32_t sum = sums[threadIdx.x] - own;
    for (int i = start; i < end; i++) {
        uint32_t value = counts[i];
        counts[i] = sum;
        sum += value;
    }
}

__global__ void scatter(const uint32_t *from, uint32_t *to, const uint32_t *starts, int step) {
    __shared__ uint32_t places[WARPS][DIGITS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t next = starts[threadIdx.x * CHUNKS + blockIdx.x];
    for (int tile = 0; tile < CHUNK; tile += DIGITS) {
        for (int w = 0; w < WARPS; w++) places[w][threadIdx.x] = 0;
        __syncthreads();
        int i = blockIdx.x * CHUNK + tile + threadIdx.x;
        bool inside = i < COUNT;
        uint32_t key = inside ? from[i] : 0, digit = inside ? digit_of(key, step) : DIGITS;
        uint32_t peers = __match_any_sync(~0u, digit);
        int rank = __popc(peers & ((1u << lane) - 1));
        if (inside && rank == 0) places[warp][digit] = __popc(peers);
        __syncthreads();
        for (int w = 0; w < WARPS; w++) {
            uint32_t found = places[w][threadIdx.x];
            places[w][threadIdx.x] = next;
            next += found;
        }
        __syncthreads();
        if (inside) to[places[warp][digit] + rank] = key;
        __syncthreads();
    }
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<uint32_t> a(input()), b(COUNT), counts(DIGITS * CHUNKS);
    uint32_t *from = a, *to = b;
    for (int i = 0; i < steps; i++) {
        count<<<CHUNKS, DIGITS>>>(from, counts, i);
        scan<<<1, SCANNERS>>>(counts);
        scatter<<<CHUNKS, DIGITS>>>(from, to, counts, i);
        std::swap(from, to);
    }
    report((from == a.at ? a : b).host());
}

#else

#include <omp.h>

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv), threads = omp_get_max_threads();
    std::vector<uint32_t> from = input(), to(COUNT);
    std::vector<uint32_t> counts(threads * DIGITS);
    for (int n = 0; n < steps; n++) {
#pragma omp parallel num_threads(threads)
        {
            int thread = omp_get_thread_num();
            int start = int64_t(COUNT) * thread / threads;
            int end = int64_t(COUNT) * (thread + 1) / threads;
            uint32_t next[DIGITS] = {};
            for (int i = start; i < end; i++) next[digit_of(from[i], n)]++;
            std::copy(next, next + DIGITS, &counts[thread * DIGITS]);
#pragma omp barrier
            uint32_t sum = 0;
            for (int digit = 0; digit < DIGITS; digit++) {
                for (int other = 0; other < threads; other++) {
                    if (other == thread) next[digit] = sum;
                    sum += counts[other * DIGITS + digit];
                }
            }
            for (int i = start; i < end; i++) to[next[digit_of(from[i], n)]++] = from[i];
        }
        std::swap(from, to);
    }
    report(from);
}

#endif
