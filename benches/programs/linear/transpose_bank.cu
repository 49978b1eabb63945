// Transposes a table of integers forth and back, adding a little. Pattern: transpositions: a
// shared tile padded by a column against bank conflicts, and blocks of 32x8 threads with guards.
#include "../program.h"

const int ROWS = 1000, COLUMNS = 903;

static std::vector<int> table() {
    Random random(7);
    std::vector<int> values(ROWS * COLUMNS);
    for (int &value : values) value = int(random.below(20001)) - 10000;
    return values;
}

// What a step adds on the way forth.
static int added(int step) { return step % 3 - 1; }

#ifdef __CUDACC__

const int TILE = 32, LINES = 8;

__global__ void transpose(const int *from, int *to, int rows, int columns, int add) {
    __shared__ int tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int line = 0; line < TILE; line += LINES) {
        if (x < columns && y + line < rows) {
            tile[threadIdx.y + line][threadIdx.x] = from[(y + line) * columns + x];
        }
    }
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int line = 0; line < TILE; line += LINES) {
        if (x < rows && y + line < columns) {
            to[(y + line) * rows + x] = tile[threadIdx.x][threadIdx.y + line] + add;
        }
    }
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<int> a(table()), b(ROWS * COLUMNS);
    dim3 block(TILE, LINES);
    const int high = (ROWS + TILE - 1) / TILE, wide = (COLUMNS + TILE - 1) / TILE;
    for (int i = 0; i < steps; i++) {
        transpose<<<dim3(wide, high), block>>>(a, b, ROWS, COLUMNS, added(i));
        transpose<<<dim3(high, wide), block>>>(b, a, COLUMNS, ROWS, 0);
    }
    report(a.host());
    report(b.host());
}

#else

static void transpose(const int *from, int *to, int rows, int columns, int add) {
    const int block = 32;
#pragma omp parallel for collapse(2)
    for (int top = 0; top < rows; top += block) {
        for (int left = 0; left < columns; left += block) {
            int bottom = std::min(top + block, rows), right = std::min(left + block, columns);
            for (int x = left; x < right; x++) {
                for (int y = top; y < bottom; y++) to[x * rows + y] = from[y * columns + x] + add;
            }
        }
    }
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<int> a = table(), b(ROWS * COLUMNS);
    for (int i = 0; i < steps; i++) {
        transpose(a.data(), b.data(), ROWS, COLUMNS, added(i));
        transpose(b.data(), a.data(), COLUMNS, ROWS, 0);
    }
    report(a);
    report(b);
}

#endif
