// A hash of byte strings of different lengths, each seeded by its hash of the step before. Pattern:
// loops over bytes that end with a switch over the tail: one thread per string.
#include "../program.h"

const int STRINGS = 20000;
const uint32_t LONGEST = 130;

struct Strings {
    std::vector<uint8_t> bytes;
    // Where each string starts, and where the last one ends.
    std::vector<uint32_t> starts;

    Strings() {
        Random random(1);
        for (int i = 0; i < STRINGS; i++) {
            starts.push_back(bytes.size());
            uint32_t length = random.below(LONGEST + 1);
            for (uint32_t j = 0; j < length; j++) bytes.push_back(uint8_t(random.next()));
        }
        starts.push_back(bytes.size());
    }
};

BOTH inline uint32_t rotate(uint32_t value, int bits) {
    return value << bits | value >> (32 - bits);
}

BOTH inline uint32_t mixed(uint32_t word) { return rotate(word * 0x9e3779b1, 13) * 0x85ebca77; }

BOTH inline uint32_t hash(const uint8_t *bytes, uint32_t length, uint32_t seed) {
    uint32_t hash = seed, i = 0;
    for (; i + 4 <= length; i += 4) {
        uint32_t word = bytes[i] | uint32_t(bytes[i + 1]) << 8 | uint32_t(bytes[i + 2]) << 16 |
                        uint32_t(bytes[i + 3]) << 24;
        hash = rotate(hash ^ mixed(word), 17) * 5 + 0x27d4eb2f;
    }
    uint32_t tail = 0;
    switch (length - i) {
    case 3: tail |= uint32_t(bytes[i + 2]) << 16; [[fallthrough]];
    case 2: tail |= uint32_t(bytes[i + 1]) << 8; [[fallthrough]];
    case 1: hash ^= mixed(tail | bytes[i]);
    }
    hash ^= length;
    hash = (hash ^ hash >> 15) * 0xc2b2ae3d;
    hash = (hash ^ hash >> 13) * 0x165667b1;
    return hash ^ hash >> 16;
}

#ifdef __CUDACC__

__global__ void step(const uint8_t *bytes, const uint32_t *starts, uint32_t *hashes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= STRINGS) return;
    uint32_t start = starts[i];
    hashes[i] = hash(bytes + start, starts[i + 1] - start, hashes[i]);
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Strings strings;
    Device<uint8_t> bytes(strings.bytes);
    Device<uint32_t> starts(strings.starts), hashes(STRINGS);
    for (int i = 0; i < steps; i++) {
        step<<<(STRINGS + 127) / 128, 128>>>(bytes, starts, hashes);
    }
    report(hashes.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Strings strings;
    std::vector<uint32_t> hashes(STRINGS);
    for (int n = 0; n < steps; n++) {
#pragma omp parallel for
        for (int i = 0; i < STRINGS; i++) {
            uint32_t start = strings.starts[i];
            hashes[i] =
                hash(strings.bytes.data() + start, strings.starts[i + 1] - start, hashes[i]);
        }
    }
    report(hashes);
}

#endif
