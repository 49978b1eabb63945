// A gated mix of GELU, softplus and a sigmoid. Pattern: activations of neural networks: expf,
// tanhf and logf over arrays that are read and written as float4, and a tail of up to three.
#include "../program.h"

const int COUNT = 100003;

static std::vector<float> inputs(uint64_t seed) {
    std::vector<float> values = random_floats(COUNT, seed);
    for (float &value : values) value = 8 * value - 4;
    return values;
}

BOTH inline float activate(float x, float gate) {
    float gelu = 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    float softplus = fmaxf(x, 0) + logf(1 + expf(-fabsf(x)));
    float open = 1 / (1 + expf(-gate));
    return open * gelu + (1 - open) * fminf(softplus, 3);
}

#ifdef __CUDACC__

__global__ void step(const float *x, const float *gate, float *y) {
    int first = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (first + 4 <= COUNT) {
        float4 values = *reinterpret_cast<const float4 *>(x + first);
        float4 gates = *reinterpret_cast<const float4 *>(gate + first);
        values.x = activate(values.x, gates.x);
        values.y = activate(values.y, gates.y);
        values.z = activate(values.z, gates.z);
        values.w = activate(values.w, gates.w);
        *reinterpret_cast<float4 *>(y + first) = values;
    } else {
        for (int i = first; i < COUNT; i++) y[i] = activate(x[i], gate[i]);
    }
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<float> x(inputs(16)), gate(inputs(17)), y(COUNT);
    const int block = 128, each = 4 * block;
    for (int i = 0; i < steps; i++) step<<<(COUNT + each - 1) / each, block>>>(x, gate, y);
    report(y.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<float> x = inputs(16), gate = inputs(17), y(COUNT);
    for (int i = 0; i < steps; i++) {
#pragma omp parallel for
        for (int n = 0; n < COUNT; n++) y[n] = activate(x[n], gate[n]);
    }
    report(y);
}

#endif
