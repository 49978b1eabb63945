// Integers from 8 to 128 bits and the intrinsics on them.
template <typename T>
__global__ void operators(const T* in, T* out, int n) {
    T a = in[0], b = in[1], c = in[2];
    out[0] = a + b * c - a / b;
    out[1] = a % b + (a << n) + (b >> n) + (a & b) + (b | c) + (a ^ c) + ~a;
    out[2] = a < b ? c : -a;
    out[3] = (a == b) + (b != c) * 2 + (a >= c) * 4;
    out[4] = a / T(7) + b % T(10) + c * T(3);
}
template __global__ void operators<signed char>(const signed char*, signed char*, int);
template __global__ void operators<unsigned short>(const unsigned short*, unsigned short*, int);
template __global__ void operators<int>(const int*, int*, int);
template __global__ void operators<unsigned>(const unsigned*, unsigned*, int);
template __global__ void operators<long long>(const long long*, long long*, int);
template __global__ void operators<unsigned long long>(const unsigned long long*, unsigned long long*, int);
template __global__ void operators<__int128>(const __int128*, __int128*, int);
template __global__ void operators<unsigned __int128>(const unsigned __int128*, unsigned __int128*, int);

__global__ void intrinsics(const unsigned* in, unsigned* out, unsigned long long* wide) {
    unsigned a = in[0], b = in[1], c = in[2];
    out[0] = __brev(a) + __clz(b) + __ffs(c) + __popc(a) + __byte_perm(a, b, c);
    out[1] = __funnelshift_l(a, b, c) + __funnelshift_lc(a, b, c) + __funnelshift_r(a, b, c) + __funnelshift_rc(a, b, c);
    out[2] = __umulhi(a, b) + __mulhi((int)a, (int)b) + __mul24(a, b) + __umul24(b, c) + __sad(a, b, c) + __usad(a, b, c);
    out[3] = __hadd(a, b) + __rhadd(a, b) + __uhadd(b, c) + __urhadd(a, c) + min(a, b) + max((int)b, (int)c) + abs((int)a);
    out[4] = __dp4a(a, b, c) + __dp4a((int)a, (int)b, (int)c) + __dp2a_lo(a, b, c) + __dp2a_hi((int)a, (int)b, (int)c);
    out[5] = __fns(a, b, c);
    wide[0] = __brevll(wide[1]) + __clzll(wide[2]) + __popcll(wide[3]) + __umul64hi(wide[1], wide[2]) + __mul64hi(wide[3], wide[4]);
    wide[1] = (unsigned long long)a * b + (long long)(int)a * (int)c + llmin(wide[0], wide[2]) + (wide[3] << a);
}

__global__ void lanes(const unsigned* in, unsigned* out) {
    unsigned a = in[0], b = in[1], c = in[2];
    out[0] = __vadd4(a, b) + __vsub2(a, b) + __vabs4(c) + __vneg2(a) + __vaddss4(a, b) + __vaddus2(b, c) + __vsubss2(a, b);
    out[1] = __vabsdiffu4(a, b) + __vabsdiffs2(a, b) + __vavgu4(a, b) + __vavgs2(a, b) + __vsadu4(a, b) + __vsads2(b, c);
    out[2] = __vcmpeq4(a, b) + __vcmpgtu2(a, b) + __vcmples4(a, b) + __vsetne2(a, b) + __vsetltu4(b, c);
    out[3] = __vmaxu4(a, b) + __vmins2(a, b) + __vmaxs4(b, c) + __vminu2(a, c) + __vhaddu4(a, b);
    out[4] = __viaddmax_s32(a, b, c) + __vimax3_s32_relu(a, b, c) + __viaddmin_u16x2(a, b, c) + __vimin3_s16x2(a, b, c) + __vimax_s16x2_relu(a, b);
    bool high, low;
    out[5] = __vibmax_u16x2(a, b, &high, &low) + high + 2 * low;
}
