// Prices of European options by Black and Scholes. Pattern: formulas over arrays: expf, logf and
// sqrtf, a polynomial for the normal distribution, a branch on a sign, and several arrays.
#include "../program.h"

const int COUNT = 100003;
constexpr float RATE = 0.03f;

static std::vector<float> between(float low, float high, uint64_t seed) {
    std::vector<float> values = random_floats(COUNT, seed);
    for (float &value : values) value = low + (high - low) * value;
    return values;
}

static std::vector<float> prices() { return between(20, 60, 12); }
static std::vector<float> strikes() { return between(15, 70, 13); }
static std::vector<float> years() { return between(0.1f, 4, 14); }
static std::vector<float> volatilities() { return between(0.1f, 0.6f, 15); }

// The normal distribution up to x, by a polynomial of Abramowitz and Stegun (26.2.17).
BOTH inline float normal(float x) {
    float t = 1 / (1 + 0.2316419f * fabsf(x));
    float sum = 1.330274429f;
    sum = sum * t - 1.821255978f;
    sum = sum * t + 1.781477937f;
    sum = sum * t - 0.356563782f;
    sum = sum * t + 0.319381530f;
    float tail = 0.39894228f * expf(-0.5f * x * x) * sum * t;
    return x < 0 ? tail : 1 - tail;
}

BOTH inline void value(float price, float strike, float years, float volatility, float &call,
                       float &put) {
    float root = volatility * sqrtf(years);
    float d1 = (logf(price / strike) + (RATE + 0.5f * volatility * volatility) * years) / root;
    float d2 = d1 - root;
    float today = strike * expf(-RATE * years);
    call = price * normal(d1) - today * normal(d2);
    put = today * normal(-d2) - price * normal(-d1);
}

#ifdef __CUDACC__

__global__ void step(const float *price, const float *strike, const float *years,
                     const float *volatility, float *call, float *put) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < COUNT) value(price[i], strike[i], years[i], volatility[i], call[i], put[i]);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<float> price(prices()), strike(strikes()), year(years()), volatility(volatilities());
    Device<float> call(COUNT), put(COUNT);
    const int block = 256;
    for (int i = 0; i < steps; i++) {
        step<<<(COUNT + block - 1) / block, block>>>(price, strike, year, volatility, call, put);
    }
    report(call.host());
    report(put.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<float> price = prices(), strike = strikes(), year = years();
    std::vector<float> volatility = volatilities(), call(COUNT), put(COUNT);
    for (int i = 0; i < steps; i++) {
#pragma omp parallel for
        for (int n = 0; n < COUNT; n++) {
            value(price[n], strike[n], year[n], volatility[n], call[n], put[n]);
        }
    }
    report(call);
    report(put);
}

#endif
