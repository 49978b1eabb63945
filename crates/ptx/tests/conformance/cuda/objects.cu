// Virtual functions, function pointers, recursion, tables of addresses.
struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    float side;
    __device__ explicit Square(float side) : side(side) {}
    __device__ float area() const override { return side * side; }
};
struct Circle : Shape {
    float radius;
    __device__ explicit Circle(float radius) : radius(radius) {}
    __device__ float area() const override { return 3.14159f * radius * radius; }
};

__global__ void areas(float* out, int n) {
    for (int i = 0; i < n; ++i) {
        Shape* shape = i & 1 ? (Shape*)new Square(out[i]) : (Shape*)new Circle(out[i]);
        out[i] = shape->area();
        delete shape;
    }
}

__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int thrice(int x) { return 3 * x; }
typedef int (*Function)(int);
__device__ Function functions[3] = {twice, thrice, nullptr};
__constant__ Function constant_function = thrice;
__device__ const char* names[] = {"twice", "thrice"};

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

struct Big {
    double values[5];
    char tail[3];
};
__device__ __noinline__ Big turn(Big big, int by) {
    for (int i = 0; i < 5; ++i) big.values[i] += big.values[(i + by) % 5];
    big.tail[by & 1]++;
    return big;
}
struct __align__(16) Aligned { int x, y, z; };
__device__ __noinline__ Aligned pass(Aligned a, float4 b, char c, short d, bool e, long long f) {
    a.x += b.x + c + d + e + f;
    return a;
}
struct Empty {};
__device__ __noinline__ Empty nothing(Empty, int* p) { *p = 1; return Empty(); }

__global__ void calls(int* out, Big* big, Aligned* aligned, int which) {
    out[0] = functions[which](out[1]) + constant_function(4) + names[which & 1][2];
    out[1] = ackermann(2, which);
    big[0] = turn(big[1], which);
    aligned[0] = pass(aligned[1], make_float4(1, 2, 3, which), 'a', 7, which > 0, 1ll << which);
    nothing(Empty(), out);
    int (Shape::*none)() = nullptr;
    out[2] = none == nullptr;
}

__global__ void choose(int* out, int n) {
    switch (n) {
        case 0: out[0] = 11; break;
        case 1: out[1] = 9 * n; __syncthreads(); break;
        case 2: out[2] = n / 3; [[fallthrough]];
        case 3: out[4] ^= 5; break;
        case 4: atomicAdd(out, 1); break;
        case 5: out[8] = out[9]; break;
        case 6: out[10] = __clz(n); return;
        case 7: out[11] = twice(n); break;
        default: out[12] = 1;
    }
    out[20] = 1;
}
