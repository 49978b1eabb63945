// A kernel whose loop has several ways out.
__global__ void mandelbrot(unsigned char* out, int width, int height, float scale, int limit) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float cx = (x - width / 2) * scale, cy = (y - height / 2) * scale, zx = 0, zy = 0;
    int i = 0;
    for (; i < limit; ++i) {
        float xx = zx * zx, yy = zy * zy;
        if (xx + yy > 4.0f) break;
        zy = 2 * zx * zy + cy;
        zx = xx - yy + cx;
        if (zx == cx && zy == cy && i > 3) goto done;
    }
done:
    out[y * width + x] = i * 255 / limit;
}
