// The peers of the CPU device: the samples' algorithms as a C programmer
// writes them, two threads, no intrinsics. Built by the bench with
// cc -O3 -march=native.

#include <pthread.h>
#include <stddef.h>

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
