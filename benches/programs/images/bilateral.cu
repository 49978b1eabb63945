// A bilateral filter, which blurs but keeps edges: the weight of a neighbour falls with its
// distance and its difference. Pattern: many loads around a point, and expf in the inner loop.
#include <algorithm>

#include "../program.h"

const int WIDTH = 203;
const int HEIGHT = 150;
const int RADIUS = 3;
// Halves of the inverse variances.
const float BY_DISTANCE = 1 / (2 * 2.0f * 2.0f);
const float BY_DIFFERENCE = 1 / (2 * 0.2f * 0.2f);
// The steps take these in turn.
const int IMAGES = 4;

// Discs of different brightness, with noise.
static std::vector<float> images() {
    std::vector<float> values = random_floats(IMAGES * WIDTH * HEIGHT, 1);
    for (int i = 0; i < IMAGES * WIDTH * HEIGHT; i++) {
        int x = i % WIDTH % 40 - 20, y = i / WIDTH % 40 - 20, radius = 8 + i / WIDTH / HEIGHT;
        values[i] = 0.3f * values[i] + (x * x + y * y < radius * radius ? 0.7f : 0.1f);
    }
    return values;
}

// Reports how much the filter changed: the image itself would hide errors.
static void report_change(std::vector<float> filtered, int steps) {
    std::vector<float> all = images();
    const float *image = &all[(steps - 1) % IMAGES * WIDTH * HEIGHT];
    for (int i = 0; i < WIDTH * HEIGHT; i++) filtered[i] = std::fabs(filtered[i] - image[i]);
    report(filtered);
}

#ifdef __CUDACC__

__global__ void step(const float *from, float *to) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= WIDTH || y >= HEIGHT) return;
    float centre = from[y * WIDTH + x], sum = 0, weights = 0;
    for (int dy = -RADIUS; dy <= RADIUS; dy++) {
        for (int dx = -RADIUS; dx <= RADIUS; dx++) {
            int at_x = min(max(x + dx, 0), WIDTH - 1), at_y = min(max(y + dy, 0), HEIGHT - 1);
            float value = from[at_y * WIDTH + at_x], difference = value - centre;
            float distance = dx * dx + dy * dy;
            float weight = expf(-distance * BY_DISTANCE - difference * difference * BY_DIFFERENCE);
            sum += weight * value;
            weights += weight;
        }
    }
    to[y * WIDTH + x] = sum / weights;
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<float> from(images()), to(WIDTH * HEIGHT);
    dim3 block(32, 4), grid((WIDTH + 31) / 32, (HEIGHT + 3) / 4);
    for (int i = 0; i < steps; i++) {
        step<<<grid, block>>>(from + i % IMAGES * WIDTH * HEIGHT, to);
    }
    report_change(to.host(), steps);
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<float> all = images(), to(WIDTH * HEIGHT);
    for (int n = 0; n < steps; n++) {
        const float *from = &all[n % IMAGES * WIDTH * HEIGHT];
#pragma omp parallel for
        for (int y = 0; y < HEIGHT; y++) {
            for (int x = 0; x < WIDTH; x++) {
                float centre = from[y * WIDTH + x], sum = 0, weights = 0;
                for (int dy = -RADIUS; dy <= RADIUS; dy++) {
                    const float *row = from + std::clamp(y + dy, 0, HEIGHT - 1) * WIDTH;
                    for (int dx = -RADIUS; dx <= RADIUS; dx++) {
                        float value = row[std::clamp(x + dx, 0, WIDTH - 1)];
                        float difference = value - centre, distance = dx * dx + dy * dy;
                        float weight = std::exp(-distance * BY_DISTANCE -
                                                difference * difference * BY_DIFFERENCE);
                        sum += weight * value;
                        weights += weight;
                    }
                }
                to[y * WIDTH + x] = sum / weights;
            }
        }
    }
    report_change(to, steps);
}

#endif
