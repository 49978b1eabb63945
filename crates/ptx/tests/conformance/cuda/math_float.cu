// Single precision: operators, intrinsics with a rounding, the library.
__global__ void operators(const float* a, float* out, int n) {
    float x = a[0], y = a[1], z = a[2];
    out[0] = x + y * z - x / y;
    out[1] = fmaf(x, y, z) + sqrtf(x) + rsqrtf(y) + 1.0f / z;
    out[2] = fminf(x, y) + fmaxf(y, z) + fabsf(x) + copysignf(x, y) + fdimf(x, y);
    out[3] = floorf(x) + ceilf(y) + truncf(z) + rintf(x) + roundf(y) + nearbyintf(z);
    out[4] = x < y ? z : x;
    out[5] = isnan(x) || isinf(y) || signbit(z);
    out[6] = __saturatef(x) + ldexpf(y, n) + fmodf(x, y) + remainderf(y, z);
    int e;
    out[7] = frexpf(x, &e) + e + modff(y, out + 8) + logbf(z) + ilogbf(x) + nextafterf(x, y);
}
__global__ void rounded(const float* a, float* out) {
    float x = a[0], y = a[1], z = a[2];
    out[0] = __fadd_rn(x, y) + __fadd_rz(x, y) + __fadd_ru(x, y) + __fadd_rd(x, y);
    out[1] = __fmul_rn(x, y) + __fmul_rz(x, y) + __fmul_ru(x, y) + __fmul_rd(x, y);
    out[2] = __fmaf_rn(x, y, z) + __fmaf_rz(x, y, z) + __fmaf_ru(x, y, z) + __fmaf_rd(x, y, z);
    out[3] = __fdiv_rn(x, y) + __fdiv_rz(x, y) + __fdiv_ru(x, y) + __fdiv_rd(x, y) + __fdividef(x, y);
    out[4] = __frcp_rn(x) + __frcp_rz(x) + __frcp_ru(x) + __frcp_rd(x) + __frsqrt_rn(x);
    out[5] = __fsqrt_rn(x) + __fsqrt_rz(x) + __fsqrt_ru(x) + __fsqrt_rd(x) + __fsub_rn(x, y);
    out[6] = __sinf(x) + __cosf(x) + __tanf(x) + __logf(x) + __log2f(x) + __log10f(x) + __expf(x) + __exp10f(x) + __powf(x, y);
}
__global__ void library(const float* a, float* out) {
    float x = a[0], y = a[1], z = a[2];
    out[0] = sinf(x) + cosf(x) + tanf(x) + asinf(x) + acosf(x) + atanf(x) + atan2f(x, y);
    out[1] = sinhf(x) + coshf(x) + tanhf(x) + asinhf(x) + acoshf(x) + atanhf(x);
    out[2] = expf(x) + exp2f(x) + exp10f(x) + expm1f(x) + logf(x) + log2f(x) + log10f(x) + log1pf(x);
    out[3] = powf(x, y) + cbrtf(x) + rcbrtf(x) + hypotf(x, y) + norm3df(x, y, z) + rnorm4df(x, y, z, 1.0f);
    out[4] = erff(x) + erfcf(x) + erfinvf(x) + erfcxf(x) + normcdff(x) + tgammaf(x) + lgammaf(x);
    out[5] = j0f(x) + y1f(x) + sinpif(x) + cospif(x) + cyl_bessel_i0f(x);
    sincosf(x, out + 6, out + 7);
}
__global__ void convert(const float* f, const int* i, int* out, float* back, long long* wide) {
    float x = f[0];
    out[0] = __float2int_rn(x) + __float2int_rz(x) + __float2int_ru(x) + __float2int_rd(x) + (int)x;
    out[1] = __float2uint_rn(x) + (unsigned)x + (unsigned char)x + (short)x + __float_as_int(x);
    wide[0] = __float2ll_rn(x) + __float2ull_rz(x) + (long long)x + (unsigned long long)x;
    back[0] = __int2float_rn(i[0]) + __int2float_rz(i[0]) + __uint2float_ru(i[1]) + __ll2float_rd(wide[1]) + __ull2float_rn(wide[2]);
    back[1] = (float)(signed char)i[0] + (float)(unsigned short)i[1] + __int_as_float(i[2]);
}
