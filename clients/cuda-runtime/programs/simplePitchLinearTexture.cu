// A texture over rows of linear memory, with coordinates from 0 to 1 that wrap around.
#include "check.h"

__global__ void shift(cudaTextureObject_t texture, float *out, int pitch, int width, int height, int dx, int dy) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height)
        out[y * pitch + x] = tex2D<float>(texture, (x + dx + 0.5f) / width, (y + dy + 0.5f) / height);
}

int main() {
    const int width = 64, height = 48;
    std::vector<float> image(width * height), got(width * height);
    for (int i = 0; i < width * height; i++)
        image[i] = i % 251;
    float *in, *out;
    size_t in_pitch, out_pitch;
    CHECK(cudaMallocPitch(&in, &in_pitch, width * sizeof(float), height));
    CHECK(cudaMallocPitch(&out, &out_pitch, width * sizeof(float), height));
    EXPECT(in_pitch >= width * sizeof(float));
    CHECK(cudaMemcpy2D(in, in_pitch, image.data(), width * sizeof(float), width * sizeof(float), height, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = in;
    resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
    resource.res.pitch2D.width = width;
    resource.res.pitch2D.height = height;
    resource.res.pitch2D.pitchInBytes = in_pitch;
    cudaTextureDesc how = {};
    how.normalizedCoords = 1;
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeWrap;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    shift<<<dim3(4, 3), dim3(16, 16)>>>(texture, out, out_pitch / sizeof(float), width, height, 16, 8);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy2D(got.data(), width * sizeof(float), out, out_pitch, width * sizeof(float), height, cudaMemcpyDeviceToHost));
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            EXPECT(got[y * width + x] == image[(y + 8) % height * width + (x + 16) % width]);
    CHECK(cudaDestroyTextureObject(texture));
}
