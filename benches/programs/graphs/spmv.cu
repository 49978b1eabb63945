// A sparse matrix times a vector, again and again, and the result scaled to stay below one.
// Pattern: a warp per row of a CSR matrix, whose threads add their sums by shuffles.
#include "../program.h"

const int ROWS = 15002;

// The entries of row `r` are those from `offsets[r]` to `offsets[r + 1]`.
struct Matrix {
    std::vector<int> offsets, columns;
    std::vector<float> values;

    Matrix() : offsets(1) {
        Random random(13);
        for (int row = 0; row < ROWS; row++) {
            for (int count = 4 + random.below(57); count > 0; count--) {
                columns.push_back(random.below(ROWS));
                values.push_back(random.uniform());
            }
            offsets.push_back(columns.size());
        }
    }
};

// How strongly a step scales, so that the vector never comes to rest.
static float brake_of(int step) { return 1 + 3 * (step % 4); }

#ifdef __CUDACC__

const int WARP = 32, BLOCK = 128;

__global__ void multiply(const int *offsets, const int *columns, const float *values,
                         const float *from, float *to) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    if (row >= ROWS) return;
    float sum = 0;
    for (int i = offsets[row] + lane; i < offsets[row + 1]; i += WARP) {
        sum += values[i] * from[columns[i]];
    }
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, distance);
    }
    if (lane == 0) to[row] = sum;
}

__global__ void scale(float *vector, float brake) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < ROWS) vector[row] = vector[row] / (brake + vector[row]);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Matrix matrix;
    Device<int> offsets(matrix.offsets), columns(matrix.columns);
    Device<float> values(matrix.values), a(random_floats(ROWS, 14)), b(ROWS);
    float *from = a, *to = b;
    const int PER_BLOCK = BLOCK / WARP;
    for (int i = 0; i < steps; i++) {
        multiply<<<(ROWS + PER_BLOCK - 1) / PER_BLOCK, BLOCK>>>(offsets, columns, values, from, to);
        scale<<<(ROWS + BLOCK - 1) / BLOCK, BLOCK>>>(to, brake_of(i));
        std::swap(from, to);
    }
    report((from == a.at ? a : b).host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Matrix matrix;
    std::vector<float> from = random_floats(ROWS, 14), to(ROWS);
    for (int i = 0; i < steps; i++) {
        float brake = brake_of(i);
#pragma omp parallel for
        for (int row = 0; row < ROWS; row++) {
            float sum = 0;
            for (int n = matrix.offsets[row]; n < matrix.offsets[row + 1]; n++) {
                sum += matrix.values[n] * from[matrix.columns[n]];
            }
            to[row] = sum / (brake + sum);
        }
        std::swap(from, to);
    }
    report(from);
}

#endif
