// Kernels with a structure of buffers, one of parameters, slices, and a template.

struct Body {
    float x, y, z, mass;
};

struct Wind {
    float seconds;
    unsigned steps;
    float2 force;
};

extern "C" __global__ void blow(Body *bodies, size_t count, Wind wind) {
    size_t index = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (index >= count) return;
    Body &body = bodies[index];
    for (unsigned step = 0; step < wind.steps; step++) {
        body.x += wind.force.x * wind.seconds / body.mass;
        body.y += wind.force.y * wind.seconds / body.mass;
    }
}

template <typename T>
__global__ void total(const T *values, size_t count, T *sum, size_t sums) {
    if (sums == 0 || threadIdx.x != 0) return;
    T found = 0;
    for (size_t index = 0; index < count; index++) found += values[index];
    *sum = found;
}

template __global__ void total<float>(const float *, size_t, float *, size_t);
