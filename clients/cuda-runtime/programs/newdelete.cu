// new, delete, malloc and virtual functions in kernels.
#include "check.h"

struct Shape {
    __device__ virtual int area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    int side;
    __device__ Square(int side) : side(side) {}
    __device__ int area() const override { return side * side; }
};
struct Rectangle : Shape {
    int width, height;
    __device__ Rectangle(int width, int height) : width(width), height(height) {}
    __device__ int area() const override { return width * height; }
};

__global__ void make(Shape **shapes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 2)
        shapes[i] = new Square(i);
    else
        shapes[i] = new Rectangle(i, i + 1);
}

__global__ void use(Shape **shapes, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int *scratch = (int *)malloc(4 * sizeof(int));
    for (int k = 0; k < 4; k++)
        scratch[k] = shapes[i]->area() + k;
    out[i] = scratch[0] + scratch[3];
    free(scratch);
    delete shapes[i];
}

int main() {
    const int n = 128;
    CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
    size_t heap = 0;
    CHECK(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
    EXPECT(heap >= 16 << 20);
    Device<Shape *> shapes(n);
    Device<int> out(n);
    make<<<2, n / 2>>>(shapes.data);
    use<<<4, n / 4>>>(shapes.data, out.data);
    CHECK(cudaGetLastError());
    std::vector<int> got = out.host();
    for (int i = 0; i < n; i++)
        EXPECT(got[i] == 2 * (i % 2 ? i * i : i * (i + 1)) + 3);
}
