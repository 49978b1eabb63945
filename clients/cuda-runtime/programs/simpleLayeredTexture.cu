// Layers of an array, filled by a copy of three dimensions.
#include "check.h"

__global__ void negate(cudaTextureObject_t texture, float *out, int n, int layer) {
    int x = threadIdx.x, y = threadIdx.y;
    out[(layer * n + y) * n + x] = -tex2DLayered<float>(texture, x + 0.5f, y + 0.5f, layer) + layer;
}

int main() {
    const int n = 8, layers = 3;
    std::vector<float> image(n * n * layers);
    for (size_t i = 0; i < image.size(); i++)
        image[i] = i;
    cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    cudaArray_t array;
    CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(n, n, layers), cudaArrayLayered));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(image.data(), n * sizeof(float), n, n);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(n, n, layers);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc how = {};
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    Device<float> out(n * n * layers);
    for (int layer = 0; layer < layers; layer++)
        negate<<<1, dim3(n, n)>>>(texture, out.data, n, layer);
    CHECK(cudaGetLastError());
    std::vector<float> got = out.host();
    for (size_t i = 0; i < got.size(); i++)
        EXPECT(got[i] == -image[i] + i / (n * n));
    cudaChannelFormatDesc read;
    cudaExtent extent;
    unsigned flags;
    CHECK(cudaArrayGetInfo(&read, &extent, &flags, array));
    EXPECT(read.x == 32 && read.y == 0 && extent.depth == layers && flags == cudaArrayLayered);
}
