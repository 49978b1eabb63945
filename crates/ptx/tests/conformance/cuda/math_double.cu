// Double precision: operators, intrinsics with a rounding, the library.
__global__ void operators(const double* a, double* out, int n) {
    double x = a[0], y = a[1], z = a[2];
    out[0] = x + y * z - x / y;
    out[1] = fma(x, y, z) + sqrt(x) + rsqrt(y) + 1.0 / z;
    out[2] = fmin(x, y) + fmax(y, z) + fabs(x) + copysign(x, y);
    out[3] = floor(x) + ceil(y) + trunc(z) + rint(x) + round(y);
    out[4] = x <= y ? z : x != z;
    out[5] = isnan(x) || isinf(y) || signbit(z) || isfinite(x);
    out[6] = ldexp(y, n) + fmod(x, y) + __hiloint2double(n, 3) + __double2hiint(x) + __double2loint(y);
    out[7] = __longlong_as_double(__double_as_longlong(x) ^ 1);
}
__global__ void rounded(const double* a, double* out, float* single) {
    double x = a[0], y = a[1], z = a[2];
    out[0] = __dadd_rn(x, y) + __dadd_rz(x, y) + __dmul_ru(x, y) + __dsub_rd(x, y);
    out[1] = __fma_rn(x, y, z) + __fma_rz(x, y, z) + __ddiv_ru(x, y) + __drcp_rd(x) + __dsqrt_rz(y);
    single[0] = __double2float_rn(x) + __double2float_rz(x) + __double2float_ru(y) + (float)z;
    out[2] = __int2double_rn(single[0]) + __ll2double_rz(__double2ll_rn(x)) + __double2int_ru(y) + __double2uint_rd(z) + (double)single[1];
}
__global__ void library(const double* a, double* out) {
    double x = a[0], y = a[1];
    out[0] = sin(x) + tan(x) + asin(x) + atan2(x, y);
    out[1] = sinh(x) + atanh(x) + exp(x) + expm1(x) + log(x) + log1p(x) + pow(x, y);
    out[2] = cbrt(x) + hypot(x, y) + erf(x) + lgamma(x) + sinpi(x);
}
__global__ void mixed(float* f, double d, int n) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += f[i] * d;
    f[0] = sum;
}
