// Particles that fly in a box around a block, and how many are in each cell. Pattern: particle
// codes: a thread for each one, branches at the walls, and scattered atomicAdd on integers.
#include "../program.h"

const int COUNT = 100003, SIDE = 128;

struct Particle {
    float x, y, vx, vy;
};

BOTH inline bool blocked(float x, float y) { return x >= 40 && x < 70 && y >= 50 && y < 90; }

static std::vector<Particle> particles() {
    Random random(11);
    std::vector<Particle> values(COUNT);
    for (Particle &p : values) {
        do {
            p.x = SIDE * random.uniform();
            p.y = SIDE * random.uniform();
        } while (blocked(p.x, p.y));
        p.vx = random.uniform() - 0.5f;
        p.vy = random.uniform() - 0.5f;
    }
    return values;
}

// Moves a particle, and gives the cell where it is then. As there are only sums, both versions
// round alike.
BOTH inline int move(Particle &p) {
    float x = p.x + p.vx, y = p.y + p.vy;
    if (x < 0) {
        x = -x;
        p.vx = -p.vx;
    } else if (x > SIDE) {
        x = 2 * SIDE - x;
        p.vx = -p.vx;
    }
    if (y < 0) {
        y = -y;
        p.vy = -p.vy;
    } else if (y > SIDE) {
        y = 2 * SIDE - y;
        p.vy = -p.vy;
    }
    if (blocked(x, y)) {
        p.vx = -p.vx;
        p.vy = -p.vy;
    } else {
        p.x = x;
        p.y = y;
    }
    int column = p.x < SIDE ? int(p.x) : SIDE - 1, row = p.y < SIDE ? int(p.y) : SIDE - 1;
    return row * SIDE + column;
}

// All about the middle, so that small errors show.
static void report_state(const std::vector<Particle> &values,
                         const std::vector<uint32_t> &density) {
    std::vector<float> places, velocities;
    for (const Particle &p : values) {
        places.insert(places.end(), {p.x - SIDE / 2, p.y - SIDE / 2});
        velocities.insert(velocities.end(), {p.vx, p.vy});
    }
    std::vector<int> differences;
    for (uint32_t count : density) differences.push_back(int(count) - COUNT / (SIDE * SIDE));
    report(places);
    report(velocities);
    report(differences);
}

#ifdef __CUDACC__

__global__ void step(Particle *particles, uint32_t *density) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= COUNT) return;
    Particle p = particles[i];
    int cell = move(p);
    particles[i] = p;
    atomicAdd(&density[cell], 1u);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<Particle> all(particles());
    Device<uint32_t> density(SIDE * SIDE);
    const int block = 256;
    for (int i = 0; i < steps; i++) {
        CUDA(cudaMemset(density, 0, SIDE * SIDE * sizeof(uint32_t)));
        step<<<(COUNT + block - 1) / block, block>>>(all, density);
    }
    report_state(all.host(), density.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<Particle> all = particles();
    std::vector<uint32_t> density(SIDE * SIDE);
    uint32_t *counts = density.data();
    for (int i = 0; i < steps; i++) {
        std::fill(density.begin(), density.end(), 0);
#pragma omp parallel for reduction(+ : counts[ : SIDE * SIDE])
        for (int n = 0; n < COUNT; n++) counts[move(all[n])]++;
    }
    report_state(all, density);
}

#endif
