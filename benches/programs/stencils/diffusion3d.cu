// Diffusion in a block of matter: a stencil of seven points in 3D. Threads walk along z, with a
// queue of three values in registers. Each plane goes through a tile with halo in shared memory.
#include "../program.h"

const int NX = 200, NY = 150, NZ = 60;
const int PLANE = NX * NY, COUNT = PLANE * NZ;
// How well heat flows along each axis.
const float ALONG_X = 0.11f, ALONG_Y = 0.14f, ALONG_Z = 0.18f;

// The outermost cells never change; two opposite faces are hot.
static std::vector<float> block_of_matter() {
    std::vector<float> values = random_floats(COUNT, 2);
    for (int i = 0; i < PLANE; i++) values[i] += 2;
    for (int z = 0; z < NZ; z++) {
        for (int y = 0; y < NY; y++) values[z * PLANE + y * NX] += 1;
    }
    return values;
}

#ifdef __CUDACC__

const int TILE_X = 32, TILE_Y = 8;

__global__ void step(const float *from, float *to) {
    __shared__ float tile[TILE_Y + 2][TILE_X + 2];
    int x = blockIdx.x * TILE_X + threadIdx.x, y = blockIdx.y * TILE_Y + threadIdx.y;
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    bool inside = x < NX && y < NY;
    bool core = x > 0 && x < NX - 1 && y > 0 && y < NY - 1;
    int at = y * NX + x;
    float below, centre = 0, above = 0;
    if (inside) {
        centre = from[at];
        above = from[at + PLANE];
    }
    for (int z = 1; z < NZ - 1; z++) {
        at += PLANE;
        below = centre;
        centre = above;
        if (inside) {
            above = from[at + PLANE];
            tile[ty][tx] = centre;
            if (threadIdx.x == 0 && x > 0) tile[ty][0] = from[at - 1];
            if (threadIdx.x == TILE_X - 1 && x < NX - 1) tile[ty][TILE_X + 1] = from[at + 1];
            if (threadIdx.y == 0 && y > 0) tile[0][tx] = from[at - NX];
            if (threadIdx.y == TILE_Y - 1 && y < NY - 1) tile[TILE_Y + 1][tx] = from[at + NX];
        }
        __syncthreads();
        if (core) {
            to[at] = centre + ALONG_X * (tile[ty][tx - 1] + tile[ty][tx + 1] - 2 * centre) +
                     ALONG_Y * (tile[ty - 1][tx] + tile[ty + 1][tx] - 2 * centre) +
                     ALONG_Z * (below + above - 2 * centre);
        }
        __syncthreads();
    }
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<float> a(block_of_matter()), b(block_of_matter());
    float *from = a, *to = b;
    dim3 grid((NX + TILE_X - 1) / TILE_X, (NY + TILE_Y - 1) / TILE_Y), block(TILE_X, TILE_Y);
    for (int i = 0; i < steps; i++) {
        step<<<grid, block>>>(from, to);
        std::swap(from, to);
    }
    report((from == a.at ? a : b).host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<float> from = block_of_matter(), to = from;
    for (int i = 0; i < steps; i++) {
#pragma omp parallel for
        for (int z = 1; z < NZ - 1; z++) {
            for (int y = 1; y < NY - 1; y++) {
                const float *here = &from[z * PLANE + y * NX];
                float *result = &to[z * PLANE + y * NX];
                for (int x = 1; x < NX - 1; x++) {
                    float centre = here[x];
                    result[x] = centre + ALONG_X * (here[x - 1] + here[x + 1] - 2 * centre) +
                                ALONG_Y * (here[x - NX] + here[x + NX] - 2 * centre) +
                                ALONG_Z * (here[x - PLANE] + here[x + PLANE] - 2 * centre);
                }
            }
        }
        std::swap(from, to);
    }
    report(from);
}

#endif
