// Electromagnetic waves in a box of metal, on staggered grids: two fields from a third, and back.
// Pattern: several short kernels per step, without shared memory, each with its own guards.
#include "../program.h"

const int WIDTH = 1250, HEIGHT = 1000, COUNT = WIDTH * HEIGHT;
const float TO_ELECTRIC = 0.55f, TO_MAGNETIC = 0.65f;

// The electric fields start at zero, and stay there along the walls. The sum of the magnetic field
// does not change.
static std::vector<float> magnetic() { return random_floats(COUNT, 3); }

#ifdef __CUDACC__

// Along x: on the edges between rows.
__global__ void update_ex(float *ex, const float *hz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= WIDTH || y >= HEIGHT || y == 0) return;
    int at = y * WIDTH + x;
    ex[at] += TO_ELECTRIC * (hz[at] - hz[at - WIDTH]);
}

// Along y: on the edges between columns.
__global__ void update_ey(float *ey, const float *hz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= WIDTH || y >= HEIGHT || x == 0) return;
    int at = y * WIDTH + x;
    ey[at] -= TO_ELECTRIC * (hz[at] - hz[at - 1]);
}

__global__ void update_hz(float *hz, const float *ex, const float *ey) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= WIDTH || y >= HEIGHT) return;
    int at = y * WIDTH + x;
    float right = x < WIDTH - 1 ? ey[at + 1] : 0;
    float below = y < HEIGHT - 1 ? ex[at + WIDTH] : 0;
    hz[at] += TO_MAGNETIC * ((below - ex[at]) - (right - ey[at]));
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<float> hz(magnetic()), ex(COUNT), ey(COUNT);
    dim3 block(32, 8), grid((WIDTH + 31) / 32, (HEIGHT + 7) / 8);
    for (int i = 0; i < steps; i++) {
        update_ex<<<grid, block>>>(ex, hz);
        update_ey<<<grid, block>>>(ey, hz);
        update_hz<<<grid, block>>>(hz, ex, ey);
    }
    report(hz.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<float> hz = magnetic(), ex(COUNT), ey(COUNT);
    for (int i = 0; i < steps; i++) {
#pragma omp parallel
        {
#pragma omp for
            for (int y = 0; y < HEIGHT; y++) {
                float *x_row = &ex[y * WIDTH], *y_row = &ey[y * WIDTH];
                const float *here = &hz[y * WIDTH];
                if (y > 0) {
                    for (int x = 0; x < WIDTH; x++) {
                        x_row[x] += TO_ELECTRIC * (here[x] - here[x - WIDTH]);
                    }
                }
                for (int x = 1; x < WIDTH; x++) y_row[x] -= TO_ELECTRIC * (here[x] - here[x - 1]);
            }
#pragma omp for
            for (int y = 0; y < HEIGHT; y++) {
                const float *x_row = &ex[y * WIDTH], *y_row = &ey[y * WIDTH];
                // No field behind the last row: that of the first one is zero.
                const float *below = y < HEIGHT - 1 ? x_row + WIDTH : &ex[0];
                float *here = &hz[y * WIDTH];
                const int last = WIDTH - 1;
                for (int x = 0; x < last; x++) {
                    here[x] += TO_MAGNETIC * ((below[x] - x_row[x]) - (y_row[x + 1] - y_row[x]));
                }
                here[last] += TO_MAGNETIC * ((below[last] - x_row[last]) + y_row[last]);
            }
        }
    }
    report(hz);
}

#endif
