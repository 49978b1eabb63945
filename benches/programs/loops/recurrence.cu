// A filter with feedback along each row, then an estimate of a level that follows the filtered
// values. Pattern: loops whose turns depend on the one before: one thread per row.
#include "../program.h"

const int ROWS = 500;
const int COLUMNS = 801;
// Of the filter: the resonance decays by a tenth each turn.
const float INPUT = 0.2f;
const float FIRST = 1.5f;
const float SECOND = -0.8f;
// Of the estimate: the variances of the level's drift and of the measurements.
const float DRIFT = 0.01f;
const float NOISE = 0.5f;
// The steps take these in turn.
const int SIGNALS = 3;

static std::vector<float> signals() { return random_floats(SIGNALS * ROWS * COLUMNS, 1); }

BOTH inline void filter(const float *from, float *to) {
    float last = 0, before = 0;
    for (int i = 0; i < COLUMNS; i++) {
        float value = INPUT * from[i] + FIRST * last + SECOND * before;
        to[i] = value;
        before = last;
        last = value;
    }
}

// In place.
BOTH inline void estimate(float *values) {
    float level = 0, variance = 1;
    for (int i = 0; i < COLUMNS; i++) {
        float measured = values[i], off = measured - level;
        // Values far off count less.
        float noise = NOISE * (1 + off * off);
        float predicted = variance + DRIFT;
        float gain = predicted / (predicted + noise);
        level += gain * off;
        variance = (1 - gain) * predicted;
        values[i] = measured - level;
    }
}

#ifdef __CUDACC__

__global__ void filter_rows(const float *from, float *to) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < ROWS) filter(from + row * COLUMNS, to + row * COLUMNS);
}

__global__ void estimate_rows(float *values) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < ROWS) estimate(values + row * COLUMNS);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<float> from(signals()), to(ROWS * COLUMNS);
    for (int i = 0; i < steps; i++) {
        filter_rows<<<(ROWS + 63) / 64, 64>>>(from + i % SIGNALS * ROWS * COLUMNS, to);
        estimate_rows<<<(ROWS + 63) / 64, 64>>>(to);
    }
    report(to.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<float> all = signals(), to(ROWS * COLUMNS);
    for (int n = 0; n < steps; n++) {
        const float *from = &all[n % SIGNALS * ROWS * COLUMNS];
#pragma omp parallel for
        for (int row = 0; row < ROWS; row++) {
            filter(from + row * COLUMNS, &to[row * COLUMNS]);
            estimate(&to[row * COLUMNS]);
        }
    }
    report(to);
}

#endif
