__device__ int offset = 17;
__device__ int scaled(int value) { return 3 * value; }
