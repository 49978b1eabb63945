// The game of life on a torus, a byte per cell.
// Pattern: stencils on bytes whose neighbours are found by modulo, and for integers throughout.
#include "../program.h"

const int WIDTH = 3000, HEIGHT = 2300;

static std::vector<uint8_t> soup() {
    Random random(4);
    std::vector<uint8_t> cells(WIDTH * HEIGHT);
    for (uint8_t &cell : cells) cell = random.below(3) == 0;
    return cells;
}

#ifdef __CUDACC__

__global__ void step(const uint8_t *from, uint8_t *to) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= WIDTH || y >= HEIGHT) return;
    int neighbours = 0;
    for (int dy = -1; dy <= 1; dy++) {
        for (int dx = -1; dx <= 1; dx++) {
            if (dx == 0 && dy == 0) continue;
            int nx = (x + dx + WIDTH) % WIDTH, ny = (y + dy + HEIGHT) % HEIGHT;
            neighbours += from[ny * WIDTH + nx];
        }
    }
    int at = y * WIDTH + x;
    to[at] = neighbours == 3 || (neighbours == 2 && from[at]);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<uint8_t> a(soup()), b(WIDTH * HEIGHT);
    uint8_t *from = a, *to = b;
    dim3 block(32, 8), grid((WIDTH + 31) / 32, (HEIGHT + 7) / 8);
    for (int i = 0; i < steps; i++) {
        step<<<grid, block>>>(from, to);
        std::swap(from, to);
    }
    report((from == a.at ? a : b).host());
}

#else

// The next state of a cell, from three rows and the columns on its left and right.
static uint8_t next(const uint8_t *up, const uint8_t *here, const uint8_t *down, int left, int x,
                    int right) {
    uint8_t neighbours = up[left] + up[x] + up[right] + here[left] + here[right] + down[left] +
                         down[x] + down[right];
    return (neighbours == 3) | ((neighbours == 2) & here[x]);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<uint8_t> from = soup(), to(WIDTH * HEIGHT);
    for (int i = 0; i < steps; i++) {
#pragma omp parallel for
        for (int y = 0; y < HEIGHT; y++) {
            const uint8_t *up = &from[(y + HEIGHT - 1) % HEIGHT * WIDTH];
            const uint8_t *here = &from[y * WIDTH];
            const uint8_t *down = &from[(y + 1) % HEIGHT * WIDTH];
            uint8_t *result = &to[y * WIDTH];
            result[0] = next(up, here, down, WIDTH - 1, 0, 1);
            for (int x = 1; x < WIDTH - 1; x++) result[x] = next(up, here, down, x - 1, x, x + 1);
            result[WIDTH - 1] = next(up, here, down, WIDTH - 2, WIDTH - 1, 0);
        }
        std::swap(from, to);
    }
    report(from);
}

#endif
