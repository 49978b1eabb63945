// How many steps the Collatz sequence takes from each number to 1, for other numbers each time.
// Pattern: a loop and a branch that go a different way in each thread: no memory, whole numbers.
#include "../program.h"

const int NUMBERS = 20001;

BOTH inline uint32_t length_from(uint64_t number) {
    uint32_t length = 0;
    while (number != 1) {
        if (number % 2 == 0) {
            number /= 2;
        } else {
            number = 3 * number + 1;
        }
        length++;
    }
    return length;
}

#ifdef __CUDACC__

__global__ void step(uint64_t first, uint32_t *lengths) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < NUMBERS) lengths[i] += length_from(first + i);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<uint32_t> lengths(NUMBERS);
    for (int i = 0; i < steps; i++) {
        step<<<(NUMBERS + 255) / 256, 256>>>(uint64_t(i) * NUMBERS + 1, lengths);
    }
    report(lengths.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<uint32_t> lengths(NUMBERS);
    for (int n = 0; n < steps; n++) {
        uint64_t first = uint64_t(n) * NUMBERS + 1;
#pragma omp parallel for
        for (int i = 0; i < NUMBERS; i++) lengths[i] += length_from(first + i);
    }
    report(lengths);
}

#endif
