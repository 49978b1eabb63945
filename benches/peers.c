// The peers of the CPU device: the samples' algorithms as a C programmer
// writes them, two threads, no intrinsics. Built by the bench with
// cc -O3 -march=native -fopenmp.

#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { THREADS = 2, TILE = 16 };

struct range {
    const float *a, *b;
    float *c;
    size_t n, first, last;
};

static void run(void *(*body)(void *), struct range whole, size_t units) {
    pthread_t threads[THREADS];
    struct range parts[THREADS];
    for (int t = 0; t < THREADS; t++) {
        parts[t] = whole;
        parts[t].first = units * t / THREADS;
        parts[t].last = units * (t + 1) / THREADS;
        pthread_create(&threads[t], NULL, body, &parts[t]);
    }
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
}

static void *vecadd_part(void *argument) {
    struct range *r = argument;
    const float *a = r->a, *b = r->b;
    float *c = r->c;
    for (size_t i = r->first; i < r->last; i++) c[i] = a[i] + b[i];
    return NULL;
}

void vecadd(const float *a, const float *b, float *c, size_t n) {
    run(vecadd_part, (struct range){a, b, c, n, 0, 0}, n);
}

// Rows of tiles first..last. Each tile of c is the sum over k of a tile of a
// times a tile of b, both first copied to a local array: what the kernel's
// blocks do with shared memory.
static void *matmul_part(void *argument) {
    struct range *r = argument;
    size_t n = r->n;
    for (size_t by = r->first; by < r->last; by++)
        for (size_t bx = 0; bx < n / TILE; bx++) {
            float sum[TILE][TILE] = {{0}};
            for (size_t tile = 0; tile < n / TILE; tile++) {
                float as[TILE][TILE], bs[TILE][TILE];
                for (int y = 0; y < TILE; y++)
                    for (int x = 0; x < TILE; x++) {
                        as[y][x] = r->a[(by * TILE + y) * n + tile * TILE + x];
                        bs[y][x] = r->b[(tile * TILE + y) * n + bx * TILE + x];
                    }
                for (int y = 0; y < TILE; y++)
                    for (int x = 0; x < TILE; x++) {
                        float s = sum[y][x];
                        for (int k = 0; k < TILE; k++) s += as[y][k] * bs[k][x];
                        sum[y][x] = s;
                    }
            }
            for (int y = 0; y < TILE; y++)
                for (int x = 0; x < TILE; x++) r->c[(by * TILE + y) * n + bx * TILE + x] = sum[y][x];
        }
    return NULL;
}

void matmul_shared(const float *a, const float *b, float *c, size_t n) {
    run(matmul_part, (struct range){a, b, c, n, 0, 0}, n / TILE);
}

void saxpy(float a, const float *x, float *y, size_t n) {
#pragma omp parallel for num_threads(THREADS)
    for (size_t i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}

void reduction(const float *values, float *total, size_t n) {
    float sum = 0;
#pragma omp parallel for simd reduction(+ : sum) num_threads(THREADS)
    for (size_t i = 0; i < n; i++) sum += values[i];
    *total = sum;
}

enum { BLOCK = 256 };

// The inclusive sums of each block.
void scan(const uint32_t *values, uint32_t *out, size_t n) {
#pragma omp parallel for num_threads(THREADS)
    for (size_t block = 0; block < n / BLOCK; block++) {
        uint32_t sum = 0;
        for (size_t i = block * BLOCK; i < (block + 1) * BLOCK; i++) out[i] = sum += values[i];
    }
}

void histogram(const uint8_t *data, uint32_t *counts, size_t n) {
#pragma omp parallel num_threads(THREADS)
    {
        uint32_t own[256];
        memset(own, 0, sizeof own);
#pragma omp for
        for (size_t i = 0; i < n; i++) own[data[i]]++;
#pragma omp critical
        for (int i = 0; i < 256; i++) counts[i] += own[i];
    }
}

void stencil(const float *from, float *to, size_t width, size_t height) {
#pragma omp parallel for num_threads(THREADS)
    for (size_t y = 0; y < height; y++) {
        const float *row = from + y * width;
        const float *above = y > 0 ? row - width : row;
        const float *below = y + 1 < height ? row + width : row;
        for (size_t x = 0; x < width; x++) {
            float left = row[x > 0 ? x - 1 : 0], right = row[x + 1 < width ? x + 1 : x];
            to[y * width + x] = (left + right + above[x] + below[x]) * 0.25f;
        }
    }
}

enum { SQUARE = 32 };

void transpose(const float *from, float *to, size_t width, size_t height) {
#pragma omp parallel for num_threads(THREADS)
    for (size_t top = 0; top < height; top += SQUARE)
        for (size_t left = 0; left < width; left += SQUARE) {
            float tile[SQUARE][SQUARE + 1];
            for (int y = 0; y < SQUARE; y++)
                for (int x = 0; x < SQUARE; x++) tile[y][x] = from[(top + y) * width + left + x];
            for (int y = 0; y < SQUARE; y++)
                for (int x = 0; x < SQUARE; x++) to[(left + y) * height + top + x] = tile[x][y];
        }
}

// Rows of width floats.
void softmax(const float *from, float *to, size_t width, size_t height) {
#pragma omp parallel for num_threads(THREADS)
    for (size_t y = 0; y < height; y++) {
        const float *in = from + y * width;
        float *out = to + y * width;
        float most = in[0], sum = 0;
        for (size_t x = 0; x < width; x++) most = in[x] > most ? in[x] : most;
        for (size_t x = 0; x < width; x++) sum += out[x] = exp2f((in[x] - most) * 1.442695041f);
        for (size_t x = 0; x < width; x++) out[x] /= sum;
    }
}

// Rows of halves, with the weight and the bias of each column.
void layer_norm(const _Float16 *from, _Float16 *to, const _Float16 *weight, const _Float16 *bias, size_t width,
                size_t height) {
#pragma omp parallel for num_threads(THREADS)
    for (size_t y = 0; y < height; y++) {
        const _Float16 *in = from + y * width;
        float sum = 0, squares = 0;
        for (size_t x = 0; x < width; x++) sum += in[x];
        float mean = sum / width;
        for (size_t x = 0; x < width; x++) squares += (in[x] - mean) * (in[x] - mean);
        float scale = 1 / sqrtf(squares / width + 1e-5f);
        for (size_t x = 0; x < width; x++) to[y * width + x] = (in[x] - mean) * scale * weight[x] + bias[x];
    }
}
