// Bodies that all attract each other, with softened gravity. Pattern: sums over all pairs: tiles
// of positions in shared memory, which all threads of a block read in the same order.
#include "../program.h"

const int COUNT = 1501;
constexpr float SOFTENING = 0.02f, TIME = 1e-4f;

// Places from -1 to 1 in turn as x, y and z.
static std::vector<float> places() {
    std::vector<float> values = random_floats(COUNT * 3, 8);
    for (float &value : values) value = 2 * value - 1;
    return values;
}

// They add up to about one.
static std::vector<float> masses() {
    std::vector<float> values = random_floats(COUNT, 9);
    for (float &value : values) value = (value + 0.5f) / COUNT;
    return values;
}

#ifdef __CUDACC__

const int BLOCK = 128;

__global__ void step(const float4 *from, float4 *to, float3 *velocities) {
    __shared__ float4 tile[BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    float4 body = i < COUNT ? from[i] : make_float4(0, 0, 0, 0);
    float ax = 0, ay = 0, az = 0;
    for (int first = 0; first < COUNT; first += BLOCK) {
        int other = first + threadIdx.x;
        tile[threadIdx.x] = other < COUNT ? from[other] : make_float4(0, 0, 0, 0);
        __syncthreads();
#pragma unroll 4
        for (int j = 0; j < BLOCK; j++) {
            float dx = tile[j].x - body.x, dy = tile[j].y - body.y, dz = tile[j].z - body.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + SOFTENING);
            float pull = tile[j].w * inverse * inverse * inverse;
            ax += pull * dx;
            ay += pull * dy;
            az += pull * dz;
        }
        __syncthreads();
    }
    if (i >= COUNT) return;
    float3 velocity = velocities[i];
    velocity.x += ax * TIME;
    velocity.y += ay * TIME;
    velocity.z += az * TIME;
    velocities[i] = velocity;
    to[i] = make_float4(body.x + velocity.x * TIME, body.y + velocity.y * TIME,
                        body.z + velocity.z * TIME, body.w);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<float> place = places(), mass = masses(), result;
    std::vector<float4> bodies(COUNT);
    for (int i = 0; i < COUNT; i++) {
        bodies[i] = make_float4(place[3 * i], place[3 * i + 1], place[3 * i + 2], mass[i]);
    }
    Device<float4> a(bodies), b(COUNT);
    Device<float3> velocities(COUNT);
    float4 *from = a, *to = b;
    for (int i = 0; i < steps; i++) {
        step<<<(COUNT + BLOCK - 1) / BLOCK, BLOCK>>>(from, to, velocities);
        std::swap(from, to);
    }
    for (float4 p : (from == a.at ? a : b).host()) result.insert(result.end(), {p.x, p.y, p.z});
    report(result);
    result.clear();
    for (float3 v : velocities.host()) result.insert(result.end(), {v.x, v.y, v.z});
    report(result);
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<float> place = places(), mass = masses(), velocity(COUNT * 3);
    std::vector<float> x(COUNT), y(COUNT), z(COUNT);
    for (int i = 0; i < steps; i++) {
#pragma omp parallel
        {
#pragma omp for
            for (int n = 0; n < COUNT; n++) {
                x[n] = place[3 * n];
                y[n] = place[3 * n + 1];
                z[n] = place[3 * n + 2];
            }
#pragma omp for
            for (int n = 0; n < COUNT; n++) {
                float ax = 0, ay = 0, az = 0;
#pragma omp simd reduction(+ : ax, ay, az)
                for (int j = 0; j < COUNT; j++) {
                    float dx = x[j] - x[n], dy = y[j] - y[n], dz = z[j] - z[n];
                    float square = dx * dx + dy * dy + dz * dz + SOFTENING;
                    float pull = mass[j] / (square * std::sqrt(square));
                    ax += pull * dx;
                    ay += pull * dy;
                    az += pull * dz;
                }
                const float pulls[] = {ax, ay, az};
                for (int d = 0; d < 3; d++) {
                    velocity[3 * n + d] += pulls[d] * TIME;
                    place[3 * n + d] += velocity[3 * n + d] * TIME;
                }
            }
        }
    }
    report(place);
    report(velocity);
}

#endif
