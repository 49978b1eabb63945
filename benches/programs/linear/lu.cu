// LU factorization in place, without pivoting, of a diagonally dominant matrix. Pattern: blocked
// factorizations: kernels for the diagonal tile, the panels and the rest, with barriers in loops.
#include "../program.h"

const int SIZE = 282;

static std::vector<float> matrix() {
    std::vector<float> values = random_floats(SIZE * SIZE, 2);
    for (float &value : values) value -= 0.5f;
    for (int i = 0; i < SIZE; i++) values[i * SIZE + i] += SIZE / 3;
    return values;
}

// The lower factor, and how the upper one differs from the matrix, whose diagonal is large.
static std::vector<float> factors(std::vector<float> a) {
    std::vector<float> input = matrix();
    for (int i = 0; i < SIZE * SIZE; i++) a[i] -= i % SIZE < i / SIZE ? 0 : input[i];
    return a;
}

#ifdef __CUDACC__

const int TILE = 16;

// Outside the matrix, the tiles are those of the identity.
__device__ float load(const float *a, int row, int column) {
    if (row < SIZE && column < SIZE) return a[row * SIZE + column];
    return row == column ? 1 : 0;
}

__device__ void store(float *a, int row, int column, float value) {
    if (row < SIZE && column < SIZE) a[row * SIZE + column] = value;
}

__global__ void diagonal(float *a, int first) {
    __shared__ float tile[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    tile[ty][tx] = load(a, first + ty, first + tx);
    __syncthreads();
    for (int k = 0; k < TILE - 1; k++) {
        if (ty > k && tx == k) tile[ty][k] /= tile[k][k];
        __syncthreads();
        if (ty > k && tx > k) tile[ty][tx] -= tile[ty][k] * tile[k][tx];
        __syncthreads();
    }
    store(a, first + ty, first + tx, tile[ty][tx]);
}

// The tiles right of the diagonal one (blockIdx.y = 0) and those below it.
__global__ void panels(float *a, int first) {
    __shared__ float pivot[TILE][TILE], tile[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y, other = first + (blockIdx.x + 1) * TILE;
    int row = (blockIdx.y == 0 ? first : other) + ty;
    int column = (blockIdx.y == 0 ? other : first) + tx;
    pivot[ty][tx] = load(a, first + ty, first + tx);
    tile[ty][tx] = load(a, row, column);
    __syncthreads();
    if (blockIdx.y == 0) {
        for (int k = 0; k < TILE - 1; k++) {
            if (ty > k) tile[ty][tx] -= pivot[ty][k] * tile[k][tx];
            __syncthreads();
        }
    } else {
        for (int k = 0; k < TILE; k++) {
            if (tx == k) tile[ty][k] /= pivot[k][k];
            __syncthreads();
            if (tx > k) tile[ty][tx] -= tile[ty][k] * pivot[k][tx];
            __syncthreads();
        }
    }
    store(a, row, column, tile[ty][tx]);
}

__global__ void rest(float *a, int first) {
    __shared__ float left[TILE][TILE], top[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = first + (blockIdx.y + 1) * TILE + ty, column = first + (blockIdx.x + 1) * TILE + tx;
    left[ty][tx] = load(a, row, first + tx);
    top[ty][tx] = load(a, first + ty, column);
    __syncthreads();
    float value = load(a, row, column);
    for (int k = 0; k < TILE; k++) value -= left[ty][k] * top[k][tx];
    store(a, row, column, value);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<float> input(matrix()), a(SIZE * SIZE);
    dim3 block(TILE, TILE);
    for (int i = 0; i < steps; i++) {
        CUDA(cudaMemcpy(a, input, SIZE * SIZE * sizeof(float), cudaMemcpyDeviceToDevice));
        for (int first = 0; first < SIZE; first += TILE) {
            int left = (SIZE - first - 1) / TILE;
            diagonal<<<1, block>>>(a, first);
            if (left == 0) break;
            panels<<<dim3(left, 2), block>>>(a, first);
            rest<<<dim3(left, left), block>>>(a, first);
        }
    }
    report(factors(a.host()));
}

#else

// Removes the columns from `first` to `last` (or to the diagonal) from a row.
static void eliminate(float *a, int y, int first, int last) {
    float *row = a + y * SIZE;
    for (int k = first; k < std::min(last, y); k++) {
        const float *pivot = a + k * SIZE;
        float factor = row[k] /= pivot[k];
        for (int x = k + 1; x < SIZE; x++) row[x] -= factor * pivot[x];
    }
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    const int band = 16;
    std::vector<float> input = matrix(), a;
    for (int i = 0; i < steps; i++) {
        a = input;
#pragma omp parallel
        for (int first = 0; first < SIZE; first += band) {
            int last = std::min(first + band, SIZE);
#pragma omp single
            for (int y = first; y < last; y++) eliminate(a.data(), y, first, last);
#pragma omp for
            for (int y = last; y < SIZE; y++) eliminate(a.data(), y, first, last);
        }
    }
    report(factors(a));
}

#endif
