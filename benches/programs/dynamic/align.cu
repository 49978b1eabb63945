// The scores of the best global alignments of all prefixes of two sequences (Needleman-Wunsch).
// Pattern: wavefronts: a launch per diagonal of tiles, and barriers between those in a tile.
#include "../program.h"

#include <algorithm>

const int LENGTH = 1180, PITCH = LENGTH + 1;
const int MATCH = 5, MISMATCH = -3;

static std::vector<uint8_t> sequence(uint64_t seed) {
    Random random(seed);
    std::vector<uint8_t> letters(LENGTH);
    for (uint8_t &letter : letters) letter = random.below(4);
    return letters;
}

// What a gap costs in a step.
static int gap_of(int step) { return 2 + step % 3; }

#ifdef __CUDACC__

const int TILE = 32, TILES = (LENGTH + TILE - 1) / TILE;

__global__ void borders(int *scores, int gap) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > LENGTH) return;
    scores[i] = -gap * i;
    scores[i * PITCH] = -gap * i;
}

// A block per tile of a diagonal, and a thread per column of a tile.
__global__ void align(const uint8_t *a, const uint8_t *b, int *scores, int diagonal, int first,
                      int gap) {
    __shared__ int tile[TILE + 1][TILE + 1];
    __shared__ uint8_t letters[TILE];
    int row = first + blockIdx.x, column = diagonal - row, t = threadIdx.x;
    // The scores above and left of the tile.
    int x = column * TILE, y = row * TILE;
    if (t == 0) tile[0][0] = scores[y * PITCH + x];
    tile[0][t + 1] = x + t < LENGTH ? scores[y * PITCH + x + t + 1] : 0;
    tile[t + 1][0] = y + t < LENGTH ? scores[(y + t + 1) * PITCH + x] : 0;
    letters[t] = y + t < LENGTH ? a[y + t] : 0;
    uint8_t letter = x + t < LENGTH ? b[x + t] : 0;
    __syncthreads();
    for (int i = 0; i < 2 * TILE - 1; i++) {
        int ty = i - t;
        if (ty >= 0 && ty < TILE) {
            int both = tile[ty][t] + (letters[ty] == letter ? MATCH : MISMATCH);
            tile[ty + 1][t + 1] = max(both, max(tile[ty][t + 1], tile[ty + 1][t]) - gap);
        }
        __syncthreads();
    }
    if (x + t >= LENGTH) return;
    for (int ty = 0; ty < TILE && y + ty < LENGTH; ty++) {
        scores[(y + ty + 1) * PITCH + x + t + 1] = tile[ty + 1][t + 1];
    }
}

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    Device<uint8_t> a(sequence(5)), b(sequence(6));
    Device<int> scores(PITCH * PITCH);
    for (int i = 0; i < steps; i++) {
        int gap = gap_of(i);
        borders<<<PITCH / 256 + 1, 256>>>(scores, gap);
        for (int diagonal = 0; diagonal < 2 * TILES - 1; diagonal++) {
            int first = std::max(0, diagonal - TILES + 1), last = std::min(diagonal, TILES - 1);
            align<<<last - first + 1, TILE>>>(a, b, scores, diagonal, first, gap);
        }
    }
    report(scores.host());
}

#else

// Large enough that a block is worth a task, small enough that all threads get some.
const int BLOCK = 118, BLOCKS = (LENGTH + BLOCK - 1) / BLOCK;

int main(int argc, char **argv) {
    int steps = steps_of(argc, argv);
    std::vector<uint8_t> a = sequence(5), b = sequence(6);
    std::vector<int> scores(PITCH * PITCH);
    for (int i = 0; i < steps; i++) {
        int gap = gap_of(i);
        for (int n = 0; n <= LENGTH; n++) scores[n] = scores[n * PITCH] = -gap * n;
        for (int diagonal = 0; diagonal < 2 * BLOCKS - 1; diagonal++) {
            int first = std::max(0, diagonal - BLOCKS + 1), last = std::min(diagonal, BLOCKS - 1);
#pragma omp parallel for schedule(dynamic)
            for (int row = first; row <= last; row++) {
                int left = (diagonal - row) * BLOCK, right = std::min(left + BLOCK, LENGTH);
                int bottom = std::min((row + 1) * BLOCK, LENGTH);
                for (int y = row * BLOCK; y < bottom; y++) {
                    const int *above = &scores[y * PITCH];
                    int *here = &scores[(y + 1) * PITCH];
                    for (int x = left; x < right; x++) {
                        int both = above[x] + (a[y] == b[x] ? MATCH : MISMATCH);
                        here[x + 1] = std::max(both, std::max(above[x + 1], here[x]) - gap);
                    }
                }
            }
        }
    }
    report(scores);
}

#endif
