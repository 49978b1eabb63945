// Estimates pi by points in a square, from a generator for each thread. Pattern: Monte Carlo:
// long integer loops, a sum over the block in shared memory, and an atomicAdd by one thread.
#include "../program.h"

const int STREAMS = 8192, SAMPLES = 300;

BOTH inline uint32_t next(uint32_t &state) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

// Hits of a stream. The coordinates have twelve bits, so that the comparison is exact.
BOTH inline uint32_t sample(uint32_t step, uint32_t stream) {
    uint32_t state = (step * STREAMS + stream) * 2654435761u ^ 0x5bd1e995u;
    state = (state ^ (state >> 15)) * 2246822519u | 1;
    uint32_t hits = 0;
    for (int i = 0; i < SAMPLES; i++) {
        float x = float(next(state) >> 20) / 4096;
        float y = float(next(state) >> 20) / 4096;
        if (x * x + y * y < 1) hits++;
    }
    return hits;
}

// How far the estimates are off, in hits of each group: even a single wrong hit shows.
const int GROUPS = 16;

static void report_errors(const std::vector<unsigned long long> &hits, int steps) {
    std::vector<double> errors(GROUPS);
    double expected = std::floor(double(steps) * STREAMS / GROUPS * SAMPLES * std::acos(-1.0) / 4);
    for (int i = 0; i < GROUPS; i++) errors[i] = std::fabs(double(hits[i]) - expected);
    report(errors);
}

#ifdef __CUDACC__

const int BLOCK = 256;

__global__ void step(uint32_t number, unsigned long long *hits) {
    __shared__ uint32_t sums[BLOCK];
    uint32_t stream = blockIdx.x * BLOCK + threadIdx.x;
    sums[threadIdx.x] = sample(number, stream);
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(&hits[stream / (STREAMS / GROUPS)], sums[0]);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<unsigned long long> hits(GROUPS);
    for (int i = 0; i < steps; i++) step<<<STREAMS / BLOCK, BLOCK>>>(i, hits);
    report_errors(hits.host(), steps);
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<unsigned long long> hits(GROUPS);
    for (int i = 0; i < steps; i++) {
#pragma omp parallel for
        for (int group = 0; group < GROUPS; group++) {
            const int count = STREAMS / GROUPS;
            unsigned long long sum = 0;
            for (int n = 0; n < count; n++) sum += sample(i, group * count + n);
            hits[group] += sum;
        }
    }
    report_errors(hits, steps);
}

#endif
