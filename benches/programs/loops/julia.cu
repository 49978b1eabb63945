// Julia sets: how soon each point leaves a circle under z*z + c, for a c that goes round by step.
// Pattern: loops of floats that end after a different count in each thread.
#include "../program.h"

const int WIDTH = 320;
const int HEIGHT = 201;
const int LIMIT = 100;
// Steps until c is the same again.
const int TURN = 24;

struct Point {
    float x, y;
};

static Point constant(int step) {
    float angle = 6.2831853f * float(step % TURN) / TURN;
    return {0.7885f * std::cos(angle), 0.7885f * std::sin(angle)};
}

// The point of a pixel.
BOTH inline Point at(int x, int y) {
    return {(x + 0.5f) * (3.2f / WIDTH) - 1.6f, (y + 0.5f) * (2.0f / HEIGHT) - 1};
}

BOTH inline uint32_t escape(Point z, Point c) {
    uint32_t count = 0;
    while (count < LIMIT) {
        float xx = z.x * z.x, yy = z.y * z.y;
        if (xx + yy > 4) break;
        z.y = 2 * z.x * z.y + c.y;
        z.x = xx - yy + c.x;
        count++;
    }
    return count;
}

#ifdef __CUDACC__

__global__ void step(Point c, uint32_t *counts) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < WIDTH && y < HEIGHT) counts[y * WIDTH + x] += escape(at(x, y), c);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<uint32_t> counts(WIDTH * HEIGHT);
    dim3 block(16, 16), grid((WIDTH + 15) / 16, (HEIGHT + 15) / 16);
    for (int i = 0; i < steps; i++) {
        step<<<grid, block>>>(constant(i), counts);
    }
    report(counts.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<uint32_t> counts(WIDTH * HEIGHT);
    for (int n = 0; n < steps; n++) {
        Point c = constant(n);
#pragma omp parallel for schedule(dynamic, 8)
        for (int y = 0; y < HEIGHT; y++) {
            for (int x = 0; x < WIDTH; x++) counts[y * WIDTH + x] += escape(at(x, y), c);
        }
    }
    report(counts);
}

#endif
