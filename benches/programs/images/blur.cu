// A Gaussian blur, as a pass over rows and one over columns. Pattern: filters with weights in
// constant memory and a tile with a wide halo in shared memory, with the edges clamped.
#include <algorithm>
#include <array>

#include "../program.h"

const int WIDTH = 1000;
const int HEIGHT = 700;
const int RADIUS = 5;
const int TAPS = 2 * RADIUS + 1;
// The steps take these in turn.
const int IMAGES = 3;

static std::vector<float> images() { return random_floats(IMAGES * WIDTH * HEIGHT, 1); }

static std::array<float, TAPS> gaussian() {
    std::array<float, TAPS> weights;
    float sum = 0;
    for (int i = 0; i < TAPS; i++) {
        float away = float(i - RADIUS) / 2;
        sum += weights[i] = std::exp(-away * away / 2);
    }
    for (float &weight : weights) weight /= sum;
    return weights;
}

// Reports how much the blur changed: the image itself would hide errors.
static void report_change(std::vector<float> blurred, int steps) {
    std::vector<float> all = images();
    const float *image = &all[(steps - 1) % IMAGES * WIDTH * HEIGHT];
    for (int i = 0; i < WIDTH * HEIGHT; i++) blurred[i] = std::fabs(blurred[i] - image[i]);
    report(blurred);
}

#ifdef __CUDACC__

const int TILE = 128;
const int COLUMNS = 32;
const int ROWS = 8;

__constant__ float weights[TAPS];

// Each block has a part of a row.
__global__ void blur_rows(const float *from, float *to) {
    __shared__ float tile[TILE + 2 * RADIUS];
    int start = blockIdx.x * TILE, x = start + threadIdx.x, y = blockIdx.y;
    for (int i = threadIdx.x; i < TILE + 2 * RADIUS; i += TILE) {
        tile[i] = from[y * WIDTH + min(max(start + i - RADIUS, 0), WIDTH - 1)];
    }
    __syncthreads();
    if (x >= WIDTH) return;
    float sum = 0;
    for (int i = 0; i < TAPS; i++) sum += weights[i] * tile[threadIdx.x + i];
    to[y * WIDTH + x] = sum;
}

// Each thread has several values of a column, ROWS apart.
__global__ void blur_columns(const float *from, float *to) {
    __shared__ float tile[COLUMNS + 2 * RADIUS][COLUMNS];
    int x = blockIdx.x * COLUMNS + threadIdx.x, start = blockIdx.y * COLUMNS;
    for (int i = threadIdx.y; i < COLUMNS + 2 * RADIUS; i += ROWS) {
        int y = min(max(start + i - RADIUS, 0), HEIGHT - 1);
        if (x < WIDTH) tile[i][threadIdx.x] = from[y * WIDTH + x];
    }
    __syncthreads();
    for (int row = threadIdx.y; row < COLUMNS; row += ROWS) {
        int y = start + row;
        if (x >= WIDTH || y >= HEIGHT) return;
        float sum = 0;
        for (int i = 0; i < TAPS; i++) sum += weights[i] * tile[row + i][threadIdx.x];
        to[y * WIDTH + x] = sum;
    }
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::array<float, TAPS> values = gaussian();
    CUDA(cudaMemcpyToSymbol(weights, values.data(), sizeof(weights)));
    Device<float> from(images()), between(WIDTH * HEIGHT), to(WIDTH * HEIGHT);
    dim3 row_grid((WIDTH + TILE - 1) / TILE, HEIGHT), column_block(COLUMNS, ROWS);
    dim3 column_grid((WIDTH + COLUMNS - 1) / COLUMNS, (HEIGHT + COLUMNS - 1) / COLUMNS);
    for (int i = 0; i < steps; i++) {
        blur_rows<<<row_grid, TILE>>>(from + i % IMAGES * WIDTH * HEIGHT, between);
        blur_columns<<<column_grid, column_block>>>(between, to);
    }
    report_change(to.host(), steps);
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    const std::array<float, TAPS> weights = gaussian();
    std::vector<float> from = images(), between(WIDTH * HEIGHT), to(WIDTH * HEIGHT);
    for (int n = 0; n < steps; n++) {
        const float *image = &from[n % IMAGES * WIDTH * HEIGHT];
#pragma omp parallel
        {
            // A row with its halo.
            std::vector<float> wide(WIDTH + 2 * RADIUS);
#pragma omp for
            for (int y = 0; y < HEIGHT; y++) {
                const float *row = image + y * WIDTH;
                std::fill_n(wide.begin(), RADIUS, row[0]);
                std::copy(row, row + WIDTH, wide.begin() + RADIUS);
                std::fill_n(wide.end() - RADIUS, RADIUS, row[WIDTH - 1]);
                for (int x = 0; x < WIDTH; x++) {
                    float sum = 0;
                    for (int i = 0; i < TAPS; i++) sum += weights[i] * wide[x + i];
                    between[y * WIDTH + x] = sum;
                }
            }
#pragma omp for
            for (int y = 0; y < HEIGHT; y++) {
                const float *rows[TAPS];
                for (int i = 0; i < TAPS; i++) {
                    rows[i] = &between[std::clamp(y + i - RADIUS, 0, HEIGHT - 1) * WIDTH];
                }
                for (int x = 0; x < WIDTH; x++) {
                    float sum = 0;
                    for (int i = 0; i < TAPS; i++) sum += weights[i] * rows[i][x];
                    to[y * WIDTH + x] = sum;
                }
            }
        }
    }
    report_change(to, steps);
}

#endif
