// Moves many small covariances by a product of three 6x6 matrices, A P A'. Pattern: batches of
// small matrices: a thread for each one, with local arrays and loops of constant length.
#include "../program.h"

const int COUNT = 30011, SIDE = 6, AREA = SIDE * SIDE;

// From -0.5 to 0.5.
static std::vector<float> transitions() {
    std::vector<float> values = random_floats(size_t(COUNT) * AREA, 5);
    for (float &value : values) value -= 0.5f;
    return values;
}

static std::vector<float> covariances() {
    std::vector<float> values = random_floats(size_t(COUNT) * AREA, 6);
    for (int i = 0; i < COUNT; i++) {
        float *matrix = &values[size_t(i) * AREA];
        for (int y = 0; y < SIDE; y++) {
            matrix[y * SIDE + y] += 2;
            for (int x = 0; x < y; x++) matrix[y * SIDE + x] = matrix[x * SIDE + y];
        }
    }
    return values;
}

BOTH inline void move(const float *transition, const float *covariance, float *moved) {
    float a[SIDE][SIDE], ap[SIDE][SIDE];
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            a[y][x] = transition[y * SIDE + x];
            ap[y][x] = 0;
        }
    }
    for (int y = 0; y < SIDE; y++) {
        for (int k = 0; k < SIDE; k++) {
            for (int x = 0; x < SIDE; x++) ap[y][x] += a[y][k] * covariance[k * SIDE + x];
        }
    }
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            float sum = 0;
            for (int k = 0; k < SIDE; k++) sum += ap[y][k] * a[x][k];
            moved[y * SIDE + x] = sum;
        }
    }
}

#ifdef __CUDACC__

__global__ void step(const float *transitions, const float *covariances, float *moved) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= COUNT) return;
    move(transitions + i * AREA, covariances + i * AREA, moved + i * AREA);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<float> a(transitions()), p(covariances()), moved(size_t(COUNT) * AREA);
    const int block = 128;
    for (int i = 0; i < steps; i++) step<<<(COUNT + block - 1) / block, block>>>(a, p, moved);
    report(moved.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<float> a = transitions(), p = covariances(), moved(size_t(COUNT) * AREA);
    for (int i = 0; i < steps; i++) {
#pragma omp parallel for
        for (int n = 0; n < COUNT; n++) move(&a[n * AREA], &p[n * AREA], &moved[n * AREA]);
    }
    report(moved);
}

#endif
