// The product of two matrices. Pattern: tiled products: tiles of both matrices in shared memory,
// filled and used between barriers, with guards as no side is a multiple of the tile.
#include "../program.h"

const int ROWS = 300, COLUMNS = 310, INNER = 293;

// From -1 to 1.
static std::vector<float> matrix(int rows, int columns, uint64_t seed) {
    std::vector<float> values = random_floats(rows * columns, seed);
    for (float &value : values) value = 2 * value - 1;
    return values;
}

static std::vector<float> left() { return matrix(ROWS, INNER, 3); }
static std::vector<float> right() { return matrix(INNER, COLUMNS, 4); }

#ifdef __CUDACC__

const int TILE = 16;

__global__ void product(const float *a, const float *b, float *c) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int column = blockIdx.x * TILE + tx, row = blockIdx.y * TILE + ty;
    float sum = 0;
    for (int first = 0; first < INNER; first += TILE) {
        bool has_left = row < ROWS && first + tx < INNER;
        bool has_right = first + ty < INNER && column < COLUMNS;
        left[ty][tx] = has_left ? a[row * INNER + first + tx] : 0;
        right[ty][tx] = has_right ? b[(first + ty) * COLUMNS + column] : 0;
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += left[ty][k] * right[k][tx];
        __syncthreads();
    }
    if (row < ROWS && column < COLUMNS) c[row * COLUMNS + column] = sum;
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<float> a(left()), b(right()), c(ROWS * COLUMNS);
    dim3 grid((COLUMNS + TILE - 1) / TILE, (ROWS + TILE - 1) / TILE), block(TILE, TILE);
    for (int i = 0; i < steps; i++) product<<<grid, block>>>(a, b, c);
    report(c.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<float> a = left(), b = right(), c(ROWS * COLUMNS);
    for (int i = 0; i < steps; i++) {
#pragma omp parallel for
        for (int y = 0; y < ROWS; y++) {
            float *row = &c[y * COLUMNS];
            std::fill(row, row + COLUMNS, 0.0f);
            for (int k = 0; k < INNER; k++) {
                float factor = a[y * INNER + k];
                const float *other = &b[k * COLUMNS];
                for (int x = 0; x < COLUMNS; x++) row[x] += factor * other[x];
            }
        }
    }
    report(c);
}

#endif
