// The median of each 3x3 bytes of an image, by a network of least and greatest. Pattern:
// arithmetic on bytes without branches, from global memory, with the edges clamped.
#include <algorithm>

#include "../program.h"

const int WIDTH = 2500;
const int HEIGHT = 1001;
// The steps take these in turn.
const int IMAGES = 3;

static std::vector<uint8_t> images() {
    Random random(1);
    std::vector<uint8_t> values(IMAGES * WIDTH * HEIGHT);
    for (uint8_t &value : values) value = uint8_t(random.next());
    return values;
}

BOTH inline void order(uint8_t &a, uint8_t &b) {
    uint8_t least = a < b ? a : b, greatest = a < b ? b : a;
    a = least;
    b = greatest;
}

// Sorts each row of three, then looks for the greatest of the least, the median of the medians and
// the least of the greatest: the median of these is the median of all.
BOTH inline uint8_t median(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint8_t e, uint8_t f,
                           uint8_t g, uint8_t h, uint8_t i) {
    order(a, b), order(b, c), order(a, b);
    order(d, e), order(e, f), order(d, e);
    order(g, h), order(h, i), order(g, h);
    order(a, d), order(d, g);
    order(f, i), order(c, f);
    order(b, e), order(e, h), order(b, e);
    order(g, e), order(e, c), order(g, e);
    return e;
}

#ifdef __CUDACC__

__global__ void step(const uint8_t *from, uint8_t *to) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= WIDTH || y >= HEIGHT) return;
    int left = max(x - 1, 0), right = min(x + 1, WIDTH - 1);
    const uint8_t *above = from + max(y - 1, 0) * WIDTH, *row = from + y * WIDTH;
    const uint8_t *below = from + min(y + 1, HEIGHT - 1) * WIDTH;
    to[y * WIDTH + x] = median(above[left], above[x], above[right], row[left], row[x], row[right],
                               below[left], below[x], below[right]);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<uint8_t> from(images()), to(WIDTH * HEIGHT);
    dim3 block(32, 8), grid((WIDTH + 31) / 32, (HEIGHT + 7) / 8);
    for (int i = 0; i < steps; i++) {
        step<<<grid, block>>>(from + i % IMAGES * WIDTH * HEIGHT, to);
    }
    report(to.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<uint8_t> all = images(), result(WIDTH * HEIGHT);
    for (int n = 0; n < steps; n++) {
        const uint8_t *from = &all[n % IMAGES * WIDTH * HEIGHT];
#pragma omp parallel for
        for (int y = 0; y < HEIGHT; y++) {
            const uint8_t *above = from + std::max(y - 1, 0) * WIDTH, *row = from + y * WIDTH;
            const uint8_t *below = from + std::min(y + 1, HEIGHT - 1) * WIDTH;
            uint8_t *to = &result[y * WIDTH];
            auto at = [=](int left, int x, int right) {
                return median(above[left], above[x], above[right], row[left], row[x], row[right],
                              below[left], below[x], below[right]);
            };
            to[0] = at(0, 0, 1);
            for (int x = 1; x < WIDTH - 1; x++) to[x] = at(x - 1, x, x + 1);
            to[WIDTH - 1] = at(WIDTH - 2, WIDTH - 1, WIDTH - 1);
        }
    }
    report(result);
}

#endif
