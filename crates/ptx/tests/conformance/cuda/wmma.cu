// Matrix fragments of every kind that the C++ functions offer.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <int m, int n, int k, typename A, typename C, typename LayoutA, typename LayoutB>
__global__ void multiply(const A* a, const A* b, C* c, unsigned lda, unsigned ldb, unsigned ldc) {
    wmma::fragment<wmma::matrix_a, m, n, k, A, LayoutA> fa;
    wmma::fragment<wmma::matrix_b, m, n, k, A, LayoutB> fb;
    wmma::fragment<wmma::accumulator, m, n, k, C> fc, fd;
    wmma::fill_fragment(fd, C(0));
    wmma::load_matrix_sync(fa, a, lda);
    wmma::load_matrix_sync(fb, b, ldb);
    wmma::load_matrix_sync(fc, c, ldc, wmma::mem_row_major);
    wmma::mma_sync(fd, fa, fb, fc);
    wmma::mma_sync(fc, fa, fb, fd);
    wmma::store_matrix_sync(c, fc, ldc, wmma::mem_col_major);
}

using row = wmma::row_major;
using col = wmma::col_major;
template __global__ void multiply<16, 16, 16, half, float, row, col>(const half*, const half*, float*, unsigned, unsigned, unsigned);
template __global__ void multiply<32, 8, 16, half, half, col, row>(const half*, const half*, half*, unsigned, unsigned, unsigned);
template __global__ void multiply<8, 32, 16, half, float, row, row>(const half*, const half*, float*, unsigned, unsigned, unsigned);
template __global__ void multiply<16, 16, 16, signed char, int, row, col>(const signed char*, const signed char*, int*, unsigned, unsigned, unsigned);
template __global__ void multiply<32, 8, 16, unsigned char, int, col, col>(const unsigned char*, const unsigned char*, int*, unsigned, unsigned, unsigned);
#if __CUDA_ARCH__ >= 800
template __global__ void multiply<16, 16, 16, __nv_bfloat16, float, row, col>(const __nv_bfloat16*, const __nv_bfloat16*, float*, unsigned, unsigned, unsigned);
template __global__ void multiply<8, 8, 4, double, double, row, col>(const double*, const double*, double*, unsigned, unsigned, unsigned);

__global__ void tf32(const float* a, const float* b, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, row> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, col> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 8);
    wmma::load_matrix_sync(fb, b, 8);
    for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
#endif

#if __CUDA_ARCH__ < 900
__global__ void bits(const unsigned* a, const unsigned* b, int* c) {
    namespace e = wmma::experimental;
    wmma::fragment<wmma::matrix_a, 8, 8, 128, e::precision::b1, row> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 128, e::precision::b1, col> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 128, int> fc;
    wmma::fill_fragment(fc, 0);
    wmma::load_matrix_sync(fa, a, 128);
    wmma::load_matrix_sync(fb, b, 128);
    wmma::bmma_sync(fc, fa, fb, fc, e::bmmaBitOpXOR);
    wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
    wmma::fragment<wmma::matrix_a, 8, 8, 32, e::precision::s4, row> ga;
    wmma::fragment<wmma::matrix_b, 8, 8, 32, e::precision::s4, col> gb;
    wmma::fragment<wmma::accumulator, 8, 8, 32, int> gc;
    wmma::fill_fragment(gc, 0);
    wmma::load_matrix_sync(ga, a, 32);
    wmma::load_matrix_sync(gb, b, 32);
    wmma::mma_sync(gc, ga, gb, gc);
    wmma::store_matrix_sync(c + 64, gc, 8, wmma::mem_row_major);
}
#endif
