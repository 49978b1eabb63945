// Extended lambdas, templates, and the standard library on the device.
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/complex>
#include <cuda/std/mdspan>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/variant>
#include <cuda/functional>

template <typename F>
__global__ void each(int n, F f) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) f(i);
}

struct Many { float x[20]; };

void launch(float* data, float by, int n) {
    each<<<1, 32>>>(n, [=] __device__(int i) { data[i] *= by; });
    each<<<1, 32>>>(n, [=] __host__ __device__(int i) { data[i] = i % 3 ? data[i] : by; });
    Many many = {};
    each<<<1, 32>>>(n, [=] __device__(int i) { data[i] += many.x[i % 20]; });
}

__global__ void standard(cuda::std::complex<double>* z, cuda::std::span<int> span, float* out) {
    z[0] = z[1] * z[2] / (z[0] + cuda::std::complex<double>(1.0, 2.0)) + cuda::std::exp(z[3]);
    cuda::std::array<int, 4> a = {1, 2, 3, span[0]};
    auto [x, y] = cuda::std::make_tuple(a[span[1]], 2.5f);
    cuda::std::optional<float> maybe;
    if (x > 2) maybe = y;
    out[0] = maybe.value_or(-1.0f) + cuda::std::popcount(unsigned(x)) + cuda::std::countl_zero(unsigned(span[2]));
    cuda::std::variant<int, float> either = x > 3 ? cuda::std::variant<int, float>(x) : cuda::std::variant<int, float>(y);
    out[1] = cuda::std::visit([](auto v) { return float(v) * 2; }, either);
    cuda::std::mdspan<float, cuda::std::extents<int, 4, cuda::std::dynamic_extent>> grid(out + 2, span.size());
    for (int i = 0; i < 4; ++i) grid(i, threadIdx.x) = i;
    out[99] = cuda::maximum<float>()(out[3], out[4]);
}
