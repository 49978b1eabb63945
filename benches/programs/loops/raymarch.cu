// A picture of spheres over a plane: each ray goes on by its distance to the nearest surface until
// it touches one. Pattern: loops with square roots that end early, and long chains of arithmetic.
#include <algorithm>

#include "../program.h"

const int SIZE = 256;
const int SPHERES = 3;
const int LIMIT = 24;
const float TOUCH = 1e-2f;
const float HORIZON = 6;

struct Vector {
    float x, y, z;
};

BOTH inline Vector operator+(Vector a, Vector b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
BOTH inline Vector operator-(Vector a, Vector b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
BOTH inline Vector operator*(Vector a, float b) { return {a.x * b, a.y * b, a.z * b}; }
BOTH inline float dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
BOTH inline Vector unit(Vector a) { return a * (1 / sqrtf(dot(a, a))); }

struct Scene {
    Vector centres[SPHERES];
    float radii[SPHERES];

    // The spheres move by step, and are back after 32.
    explicit Scene(int step) {
        for (int i = 0; i < SPHERES; i++) {
            float angle = 6.2831853f * (float(step % 32) / 32 + float(i) / SPHERES);
            centres[i] = {1.5f * std::cos(angle), 0.3f * i, 5 + 1.5f * std::sin(angle)};
            radii[i] = 0.6f + 0.2f * i;
        }
    }

    // From a point to the nearest surface. The plane is at y = -1.
    BOTH float distance(Vector point) const {
        float least = point.y + 1;
        for (int i = 0; i < SPHERES; i++) {
            Vector away = point - centres[i];
            least = fminf(least, sqrtf(dot(away, away)) - radii[i]);
        }
        return least;
    }

    BOTH float shade(int x, int y) const {
        Vector eye = {0, 0.5f, 0};
        Vector ray = unit({float(x - SIZE / 2), float(SIZE / 2 - y), float(SIZE)});
        float along = 0;
        for (int i = 0; i < LIMIT && along < HORIZON; i++) {
            Vector point = eye + ray * along;
            float left = distance(point);
            if (left < TOUCH) {
                // How much the surface faces the light, by a difference, and less if far.
                Vector light = {0.6f, 0.64f, -0.48f};
                float facing = (distance(point + light * 0.05f) - left) / 0.05f;
                return (0.1f + 0.9f * fmaxf(facing, 0)) / (1 + 0.1f * along);
            }
            along += left;
        }
        return 0.05f;
    }
};

#ifdef __CUDACC__

__global__ void step(Scene scene, float *image) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < SIZE && y < SIZE) image[y * SIZE + x] = scene.shade(x, y);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<float> image(SIZE * SIZE);
    dim3 block(16, 8), grid(SIZE / 16, SIZE / 8);
    for (int i = 0; i < steps; i++) {
        step<<<grid, block>>>(Scene(i), image);
    }
    report(image.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<float> image(SIZE * SIZE);
    for (int n = 0; n < steps; n++) {
        const Scene scene(n);
#pragma omp parallel for schedule(dynamic, 8)
        for (int y = 0; y < SIZE; y++) {
            for (int x = 0; x < SIZE; x++) image[y * SIZE + x] = scene.shade(x, y);
        }
    }
    report(image);
}

#endif
