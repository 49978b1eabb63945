// One step of a 2D heat equation with a source term and clamped borders.
extern "C" __global__ void heat(const float *__restrict__ in, const float *__restrict__ source, float *__restrict__ out,
                                int width, int height, float diffusion, float dt, float limit) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int left = max(x - 1, 0), right = min(x + 1, width - 1);
    int up = max(y - 1, 0), down = min(y + 1, height - 1);
    float center = in[y * width + x];
    float laplace = in[y * width + left] + in[y * width + right] + in[up * width + x] + in[down * width + x] - 4.0f * center;
    float corners = in[up * width + left] + in[up * width + right] + in[down * width + left] + in[down * width + right] - 4.0f * center;
    float value = center + dt * (diffusion * (0.8f * laplace + 0.2f * corners) + source[y * width + x]);
    if (value > limit) value = limit + 0.5f * (value - limit);
    if (value < -limit) value = -limit + 0.5f * (value + limit);
    out[y * width + x] = value / (1.0f + dt * fabsf(value));
}
