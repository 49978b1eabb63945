// Integer-heavy code: generators, hashes, ciphers, big numbers, sorting, text.
__device__ unsigned pcg(unsigned long long& state) {
    unsigned long long old = state;
    state = old * 6364136223846793005ull + 1442695040888963407ull;
    unsigned x = ((old >> 18) ^ old) >> 27, r = old >> 59;
    return (x >> r) | (x << (-r & 31));
}
__global__ void uniform(unsigned long long seed, float* out, int n) {
    unsigned long long state = seed + threadIdx.x;
    for (int i = 0; i < n; ++i) out[i * blockDim.x + threadIdx.x] = pcg(state) * 2.3283064e-10f;
}
__global__ void murmur(const unsigned char* text, int length, unsigned* out) {
    unsigned h = 0x9747b28c;
    for (int i = 0; i + 4 <= length; i += 4) {
        unsigned k = text[i] | text[i + 1] << 8 | text[i + 2] << 16 | text[i + 3] << 24;
        k *= 0xcc9e2d51u, k = (k << 15) | (k >> 17), k *= 0x1b873593u;
        h ^= k, h = (h << 13) | (h >> 19), h = h * 5 + 0xe6546b64u;
    }
    *out = h ^ (h >> 16);
}
__constant__ unsigned k256[8] = {0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u};
__global__ void rounds(unsigned* s, const unsigned* w) {
    unsigned a = s[0], e = s[4];
    #pragma unroll 4
    for (int i = 0; i < 64; ++i) {
        unsigned x = __funnelshift_r(e, e, 6) ^ __funnelshift_r(e, e, 11) ^ __funnelshift_r(e, e, 25);
        unsigned t = s[7] + x + ((e & s[5]) ^ (~e & s[6])) + k256[i & 7] + w[i];
        a = t + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2])), e = s[3] + t;
    }
    s[0] = a, s[4] = e;
}
__global__ void big_product(const unsigned* a, const unsigned* b, unsigned* out, int words) {
    for (int i = 0; i < words; ++i) {
        unsigned long long carry = 0;
        for (int j = 0; j < words; ++j) {
            unsigned long long t = (unsigned long long)a[i] * b[j] + out[i + j] + carry;
            out[i + j] = t, carry = t >> 32;
        }
        out[i + words] = carry;
    }
}
template <typename T> __global__ void bitonic(T* data, int n) {
    for (int k = 2; k <= n; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            for (int i = threadIdx.x; i < n; i += blockDim.x) {
                int other = i ^ j;
                if (other > i && ((data[i] > data[other]) == !(i & k))) { T t = data[i]; data[i] = data[other]; data[other] = t; }
            }
            __syncthreads();
        }
}
template __global__ void bitonic<double>(double*, int);
template __global__ void bitonic<short>(short*, int);
template __global__ void bitonic<unsigned char>(unsigned char*, int);
__device__ bool is_vowel(char c) { return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u'; }
__global__ void vowels(const char* text, int* count) {
    int n = 0;
    for (const char* p = text; *p; ++p) n += is_vowel(*p | 32);
    atomicAdd(count, n);
}
