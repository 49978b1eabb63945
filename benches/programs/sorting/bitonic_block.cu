// Sorts each 1024 keys, which differ by step. Pattern: sorting networks in shared memory: 512
// threads exchange pairs, with a barrier after each of 55 stages.
#include <algorithm>

#include "../program.h"

const int CHUNK = 1024;
const int COUNT = 100 * CHUNK - 300;
const int CHUNKS = (COUNT + CHUNK - 1) / CHUNK;

static std::vector<uint32_t> input() {
    Random random(1);
    std::vector<uint32_t> keys(COUNT);
    for (uint32_t &key : keys) key = uint32_t(random.next());
    return keys;
}

// What a step adds to each key, by exclusive or.
static uint32_t mask(int step) { return uint32_t(step) * 0x9e3779b1; }

#ifdef __CUDACC__

__global__ void step(const uint32_t *from, uint32_t *to, uint32_t mask) {
    __shared__ uint32_t keys[CHUNK];
    // The last chunk is filled up with the greatest key.
    for (int i = threadIdx.x; i < CHUNK; i += blockDim.x) {
        int at = blockIdx.x * CHUNK + i;
        keys[i] = at < COUNT ? from[at] ^ mask : ~0u;
    }
    __syncthreads();
    for (int run = 2; run <= CHUNK; run *= 2) {
        for (int apart = run / 2; apart > 0; apart /= 2) {
            int i = 2 * threadIdx.x - (threadIdx.x & (apart - 1));
            bool ascending = (i & run) == 0;
            uint32_t a = keys[i], b = keys[i + apart];
            if ((a > b) == ascending) {
                keys[i] = b;
                keys[i + apart] = a;
            }
            __syncthreads();
        }
    }
    for (int i = threadIdx.x; i < CHUNK; i += blockDim.x) {
        int at = blockIdx.x * CHUNK + i;
        if (at < COUNT) to[at] = keys[i];
    }
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<uint32_t> from(input()), to(COUNT);
    for (int i = 0; i < steps; i++) {
        step<<<CHUNKS, CHUNK / 2>>>(from, to, mask(i));
    }
    report(to.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<uint32_t> from = input(), to(COUNT);
    for (int n = 0; n < steps; n++) {
#pragma omp parallel for
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            int start = chunk * CHUNK, end = std::min(start + CHUNK, COUNT);
            for (int i = start; i < end; i++) to[i] = from[i] ^ mask(n);
            std::sort(to.begin() + start, to.begin() + end);
        }
    }
    report(to);
}

#endif
