// A fluid in a box with a moving lid and an obstacle, by lattice Boltzmann with nine directions.
// Pattern: lattice steps: an array for each direction, reads from all neighbours, guarded walls.
#include "../program.h"

const int WIDTH = 201, HEIGHT = 123, CELLS = WIDTH * HEIGHT, WAYS = 9;
constexpr float RATE = 1.6f, LID = 0.08f;

BOTH inline float weight(int way) { return way == 0 ? 4 / 9.0f : way < 5 ? 1 / 9.0f : 1 / 36.0f; }

static std::vector<uint8_t> walls() {
    std::vector<uint8_t> solid(CELLS);
    for (int y = 40; y < 70; y++) {
        for (int x = 90; x < 115; x++) solid[y * WIDTH + x] = 1;
    }
    return solid;
}

// A fluid at rest, with some noise in its density.
static std::vector<float> fluid() {
    std::vector<float> noise = random_floats(CELLS, 10), values(CELLS * WAYS);
    for (int i = 0; i < CELLS * WAYS; i++) {
        values[i] = weight(i / CELLS) * (1 + 0.02f * (noise[i % CELLS] - 0.5f));
    }
    return values;
}

// What flows into a cell, and then the collision there.
BOTH inline void update(const float *from, float *to, const uint8_t *solid, int x, int y) {
    const int dx[WAYS] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, dy[WAYS] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    const int opposite[WAYS] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
    int cell = y * WIDTH + x;
    if (solid[cell]) return;
    float f[WAYS], density = 0, ux = 0, uy = 0;
    for (int way = 0; way < WAYS; way++) {
        int sx = x - dx[way], sy = y - dy[way];
        bool outside = sx < 0 || sx >= WIDTH || sy < 0 || sy >= HEIGHT;
        if (outside || solid[sy * WIDTH + sx]) {
            f[way] = from[opposite[way] * CELLS + cell];
            if (sy >= HEIGHT) f[way] += 6 * weight(way) * float(dx[way]) * LID;
        } else {
            f[way] = from[way * CELLS + sy * WIDTH + sx];
        }
        density += f[way];
        ux += f[way] * float(dx[way]);
        uy += f[way] * float(dy[way]);
    }
    ux /= density;
    uy /= density;
    float square = 1.5f * (ux * ux + uy * uy);
    for (int way = 0; way < WAYS; way++) {
        float along = 3 * (ux * float(dx[way]) + uy * float(dy[way]));
        float balance = weight(way) * density * (1 + along + 0.5f * along * along - square);
        to[way * CELLS + cell] = f[way] + RATE * (balance - f[way]);
    }
}

// The speeds in all cells, which, unlike the densities, are not nearly constant.
static std::vector<float> speeds(const std::vector<float> &values) {
    std::vector<float> result(CELLS);
    for (int i = 0; i < CELLS; i++) {
        auto f = [&](int way) { return double(values[way * CELLS + i]); };
        double ux = f(1) - f(3) + f(5) - f(6) - f(7) + f(8);
        double uy = f(2) - f(4) + f(5) + f(6) - f(7) - f(8);
        result[i] = float(std::sqrt(ux * ux + uy * uy));
    }
    return result;
}

#ifdef __CUDACC__

__global__ void step(const float *from, float *to, const uint8_t *solid) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < WIDTH && y < HEIGHT) update(from, to, solid, x, y);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<float> a(fluid()), b(fluid());
    Device<uint8_t> solid(walls());
    float *from = a, *to = b;
    dim3 block(32, 4), grid((WIDTH + 31) / 32, (HEIGHT + 3) / 4);
    for (int i = 0; i < steps; i++) {
        step<<<grid, block>>>(from, to, solid);
        std::swap(from, to);
    }
    report(speeds((from == a.at ? a : b).host()));
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<float> from = fluid(), to = from;
    std::vector<uint8_t> solid = walls();
    for (int i = 0; i < steps; i++) {
#pragma omp parallel for
        for (int y = 0; y < HEIGHT; y++) {
            for (int x = 0; x < WIDTH; x++) update(from.data(), to.data(), solid.data(), x, y);
        }
        std::swap(from, to);
    }
    report(speeds(from));
}

#endif
