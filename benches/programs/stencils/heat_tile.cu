// Heat in a plate: a stencil of five points, with a tile and its halo in shared memory. The edges
// of the plate are fixed.
#include "../program.h"

const int SIZE = 1000;

static std::vector<float> plate() {
    std::vector<float> values = random_floats(SIZE * SIZE, 1);
    for (int x = 0; x < SIZE; x++) values[x] = 2;
    return values;
}

#ifdef __CUDACC__

const int TILE = 16;

__global__ void step(const float *from, float *to) {
    __shared__ float tile[TILE + 2][TILE + 2];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    bool inside = x < SIZE && y < SIZE;
    if (inside) {
        tile[ty][tx] = from[y * SIZE + x];
        if (threadIdx.x == 0 && x > 0) tile[ty][0] = from[y * SIZE + x - 1];
        if (threadIdx.x == TILE - 1 && x < SIZE - 1) tile[ty][TILE + 1] = from[y * SIZE + x + 1];
        if (threadIdx.y == 0 && y > 0) tile[0][tx] = from[(y - 1) * SIZE + x];
        if (threadIdx.y == TILE - 1 && y < SIZE - 1) tile[TILE + 1][tx] = from[(y + 1) * SIZE + x];
    }
    __syncthreads();
    if (!inside) return;
    float centre = tile[ty][tx];
    if (x > 0 && x < SIZE - 1 && y > 0 && y < SIZE - 1) {
        float around = tile[ty][tx - 1] + tile[ty][tx + 1] + tile[ty - 1][tx] + tile[ty + 1][tx];
        centre += 0.2f * (around - 4 * centre);
    }
    to[y * SIZE + x] = centre;
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<float> a(plate()), b(SIZE * SIZE);
    float *from = a, *to = b;
    dim3 grid((SIZE + TILE - 1) / TILE, (SIZE + TILE - 1) / TILE), block(TILE, TILE);
    for (int i = 0; i < steps; i++) {
        step<<<grid, block>>>(from, to);
        std::swap(from, to);
    }
    report((from == a.at ? a : b).host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<float> from = plate(), to(SIZE * SIZE);
    for (int i = 0; i < steps; i++) {
#pragma omp parallel for
        for (int y = 0; y < SIZE; y++) {
            for (int x = 0; x < SIZE; x++) {
                float centre = from[y * SIZE + x];
                if (x > 0 && x < SIZE - 1 && y > 0 && y < SIZE - 1) {
                    float around = from[y * SIZE + x - 1] + from[y * SIZE + x + 1] +
                                   from[(y - 1) * SIZE + x] + from[(y + 1) * SIZE + x];
                    centre += 0.2f * (around - 4 * centre);
                }
                to[y * SIZE + x] = centre;
            }
        }
        std::swap(from, to);
    }
    report(from);
}

#endif
