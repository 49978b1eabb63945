// The cheapest path down a grid to each cell of its last row, going down or diagonally.
// Pattern: several rows per launch in shared memory, with a halo that shrinks, and barriers.
#include "../program.h"

#include <algorithm>

const int WIDTH = 40000, ROWS = 100;
// A step starts from the last one's costs modulo 16.
const int START = 15;

static std::vector<int> weights_of_cells() {
    Random random(7);
    std::vector<int> weights(WIDTH * ROWS);
    for (int &weight : weights) weight = random.below(10);
    return weights;
}

#ifdef __CUDACC__

const int BATCH = 20, BLOCK = 256, KEPT = BLOCK - 2 * BATCH;
const int FAR = 1 << 30;
static_assert(ROWS % BATCH == 0, "whole batches");

__global__ void descend(const int *weights, const int *from, int *to, int row, int mask) {
    __shared__ int costs[BLOCK];
    int t = threadIdx.x, x = int(blockIdx.x) * KEPT + t - BATCH;
    bool inside = x >= 0 && x < WIDTH;
    costs[t] = inside ? from[x] & mask : FAR;
    __syncthreads();
    for (int i = 0; i < BATCH; i++) {
        int best = costs[t];
        if (t > 0) best = min(best, costs[t - 1]);
        if (t < BLOCK - 1) best = min(best, costs[t + 1]);
        __syncthreads();
        if (inside) costs[t] = best + weights[(row + i) * WIDTH + x];
        __syncthreads();
    }
    // The threads of the halo lack neighbours.
    if (inside && t >= BATCH && t < BLOCK - BATCH) to[x] = costs[t];
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<int> weights(weights_of_cells()), a(WIDTH), b(WIDTH);
    int *from = a, *to = b;
    for (int i = 0; i < steps; i++) {
        for (int row = 0; row < ROWS; row += BATCH) {
            int mask = row == 0 ? START : -1;
            descend<<<(WIDTH + KEPT - 1) / KEPT, BLOCK>>>(weights, from, to, row, mask);
            std::swap(from, to);
        }
    }
    report((from == a.at ? a : b).host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<int> weights = weights_of_cells(), from(WIDTH), to(WIDTH);
    for (int i = 0; i < steps; i++) {
        for (int &cost : from) cost &= START;
        for (int row = 0; row < ROWS; row++) {
            const int *weight = &weights[row * WIDTH];
            const int last = WIDTH - 1;
            to[0] = std::min(from[0], from[1]) + weight[0];
#pragma omp parallel for
            for (int x = 1; x < last; x++) {
                to[x] = std::min(from[x], std::min(from[x - 1], from[x + 1])) + weight[x];
            }
            to[last] = std::min(from[last - 1], from[last]) + weight[last];
            std::swap(from, to);
        }
    }
    report(from);
}

#endif
