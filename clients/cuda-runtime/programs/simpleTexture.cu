// A texture over an array: points, linear filtering, and what lies outside.
#include "check.h"
#include <cmath>

__global__ void sample(cudaTextureObject_t texture, float *out, int n, float shift) {
    int x = threadIdx.x, y = blockIdx.x;
    out[y * n + x] = tex2D<float>(texture, x + shift, y + shift);
}

int main() {
    const int n = 16;
    std::vector<float> image(n * n);
    for (int i = 0; i < n * n; i++)
        image[i] = i;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    CHECK(cudaMallocArray(&array, &format, n, n));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, image.data(), n * sizeof(float), n * sizeof(float), n, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc how = {};
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
    how.filterMode = cudaFilterModePoint;
    how.readMode = cudaReadModeElementType;
    cudaTextureObject_t points, linear;
    CHECK(cudaCreateTextureObject(&points, &resource, &how, nullptr));
    how.filterMode = cudaFilterModeLinear;
    CHECK(cudaCreateTextureObject(&linear, &resource, &how, nullptr));
    Device<float> out(n * n);
    sample<<<n, n>>>(points, out.data, n, 0.5f);
    std::vector<float> got = out.host();
    for (int i = 0; i < n * n; i++)
        EXPECT(got[i] == image[i]);
    sample<<<n, n>>>(linear, out.data, n, 1.0f);
    got = out.host();
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++) {
            int right = x + 1 < n ? x + 1 : x, below = y + 1 < n ? y + 1 : y;
            float mean = (image[y * n + x] + image[y * n + right] + image[below * n + x] + image[below * n + right]) / 4;
            EXPECT(std::fabs(got[y * n + x] - mean) < 0.01f);
        }
    cudaTextureDesc read = {};
    CHECK(cudaGetTextureObjectTextureDesc(&read, linear));
    EXPECT(read.filterMode == cudaFilterModeLinear && read.addressMode[1] == cudaAddressModeClamp);
    CHECK(cudaDestroyTextureObject(points));
    CHECK(cudaDestroyTextureObject(linear));
    CHECK(cudaFreeArray(array));
}
