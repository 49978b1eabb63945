// CRC-32 of each block of 256 bytes, continued from step to step. Pattern: chains of look-ups in
// a table in constant memory, at an index that differs by thread: one thread per block.
#include <algorithm>
#include <array>

#include "../program.h"

const int BLOCK_BYTES = 256;
const int BYTES = 1280000 - 100;
const int BLOCKS = (BYTES + BLOCK_BYTES - 1) / BLOCK_BYTES;

static std::vector<uint8_t> message() {
    Random random(1);
    std::vector<uint8_t> bytes(BYTES);
    for (uint8_t &byte : bytes) byte = uint8_t(random.next());
    return bytes;
}

static std::array<uint32_t, 256> remainders() {
    std::array<uint32_t, 256> table;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
        table[i] = crc;
    }
    return table;
}

#ifdef __CUDACC__

__constant__ uint32_t table[256];

__global__ void step(const uint8_t *bytes, uint32_t *crcs) {
    int block = blockIdx.x * blockDim.x + threadIdx.x;
    if (block >= BLOCKS) return;
    int start = block * BLOCK_BYTES, end = min(start + BLOCK_BYTES, BYTES);
    uint32_t crc = ~crcs[block];
    for (int i = start; i < end; i++) crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 255];
    crcs[block] = ~crc;
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::array<uint32_t, 256> values = remainders();
    CUDA(cudaMemcpyToSymbol(table, values.data(), sizeof(table)));
    Device<uint8_t> bytes(message());
    Device<uint32_t> crcs(BLOCKS);
    for (int i = 0; i < steps; i++) {
        step<<<(BLOCKS + 127) / 128, 128>>>(bytes, crcs);
    }
    report(crcs.host());
}

#else

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    const std::array<uint32_t, 256> table = remainders();
    std::vector<uint8_t> bytes = message();
    std::vector<uint32_t> crcs(BLOCKS);
    for (int n = 0; n < steps; n++) {
#pragma omp parallel for
        for (int block = 0; block < BLOCKS; block++) {
            int start = block * BLOCK_BYTES, end = std::min(start + BLOCK_BYTES, BYTES);
            uint32_t crc = ~crcs[block];
            for (int i = start; i < end; i++) crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 255];
            crcs[block] = ~crc;
        }
    }
    report(crcs);
}

#endif
