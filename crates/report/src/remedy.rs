//! Remedies: what to install, set or change after a failure.

/// The remedy for a failure; `None` if the cause tells all that is known.
pub(crate) fn remedy(entry: &str, error: &str, cause: &str) -> Option<String> {
    let name = error.strip_prefix("CUDA_ERROR_").unwrap_or(error);
    let text = match name {
        "NO_BINARY_FOR_GPU" => {
            "Add PTX to the build: nvcc `-gencode arch=compute_80,code=compute_80`, CMake \
             `CMAKE_CUDA_ARCHITECTURES=80-virtual`, PyTorch extensions `TORCH_CUDA_ARCH_LIST=8.0+PTX`. \
             A library without PTX needs a GPU: `ptxkit exec --device nvidia`."
        }
        "UNSUPPORTED_PTX_VERSION" => {
            "Build the PTX with an older CUDA toolkit, or update ptxkit: the cause names the newest version \
             that this ptxkit reads."
        }
        "INVALID_PTX" if cause.contains("PTXKIT_CPU_TARGET") => {
            "Unset `PTXKIT_CPU_TARGET`, or build for the architecture that it names."
        }
        "INVALID_PTX" => {
            "Save the PTX to a file and run `ptxcheck FILE`: it lists all errors, with fixes."
        }
        "INVALID_IMAGE" => {
            "Pass PTX, or a fatbin that holds PTX: nvcc `-ptx`, or `-fatbin` with \
             `-gencode arch=compute_80,code=compute_80`."
        }
        "JIT_COMPILATION_DISABLED" => {
            "Put the code into the cache before the program runs: run it once with `ptxkit exec --device nvidia \
             --save-compiles FILE`, then `ptxkit cache warm --from FILE`. Or allow compilation: unset \
             `PTXKIT_ON_COMPILE` and `CUDA_DISABLE_PTX_JIT`."
        }
        "NOT_SUPPORTED" if cause.contains("does not have this entry") => {
            return Some(format!(
                "Run the program on a GPU with `ptxkit exec --device nvidia`, or ask for `{entry}` in an issue of \
                 ptxkit."
            ));
        }
        "NOT_SUPPORTED" if cause.contains("tcgen05") => {
            "Use code for Hopper: build with `-gencode arch=compute_90,code=compute_90`. Programs that choose their \
             code at run time choose it for `PTXKIT_CPU_TARGET=sm_90`. Code for Blackwell's tensor cores needs a GPU: \
             `ptxkit exec --device nvidia`."
        }
        "NOT_SUPPORTED" => {
            "Run the program on a GPU with `ptxkit exec --device nvidia`, or avoid the feature that the cause names."
        }
        "ILLEGAL_ADDRESS" if cause.contains("null pointer") => {
            "Pass the pointer that `cudaMalloc` returned, and check that it succeeded: the kernel got a null pointer."
        }
        "ILLEGAL_ADDRESS" | "MISALIGNED_ADDRESS" => {
            "Check the index and the size of the allocation at the line that the cause names. Build with nvcc \
             `-lineinfo` for lines of the source. `PTXKIT_CPU_CHECK=init` finds addresses that were never written."
        }
        "LAUNCH_FAILED" if cause.contains("race") => {
            "Put `__syncthreads()`, or an atomic, between the two accesses that the cause names."
        }
        "LAUNCH_FAILED" | "ILLEGAL_INSTRUCTION" | "HARDWARE_STACK_ERROR" | "INVALID_PC" => {
            "Build with nvcc `-lineinfo` for the line of the source, and run with `PTXKIT_CPU_CHECK=race,init` to \
             find races and reads of memory that was never written."
        }
        "ASSERT" => "Fix the condition of the kernel's `assert` that the cause names.",
        "OUT_OF_MEMORY" => {
            "Free device memory, or give the CPU device more: `PTXKIT_CPU_MEMORY=BYTES`."
        }
        "UNKNOWN" => "Report this to ptxkit, with the PTX and the cause.",
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_code_has_a_remedy_that_names_an_option() {
        for (error, cause, wanted) in [
            (
                "CUDA_ERROR_NO_BINARY_FOR_GPU",
                "the image is a cubin",
                "code=compute_80",
            ),
            (
                "CUDA_ERROR_NOT_SUPPORTED",
                "line 9: the CPU device cannot run `tcgen05.mma`",
                "compute_90",
            ),
            (
                "CUDA_ERROR_NOT_SUPPORTED",
                "the CPU device does not have this entry",
                "`cuFoo`",
            ),
            (
                "CUDA_ERROR_INVALID_PTX",
                "sm_90: PTXKIT_CPU_TARGET names it",
                "Unset",
            ),
            ("CUDA_ERROR_OUT_OF_MEMORY", "", "PTXKIT_CPU_MEMORY"),
            (
                "CUDA_ERROR_ILLEGAL_ADDRESS",
                "a null pointer plus an offset",
                "cudaMalloc",
            ),
            ("CUDA_ERROR_ILLEGAL_ADDRESS", "write at 0x7f", "-lineinfo"),
        ] {
            let remedy = remedy("cuFoo", error, cause).unwrap();
            assert!(remedy.contains(wanted), "{error}: {remedy}");
        }
        assert_eq!(
            remedy("cuMemFree_v2", "CUDA_ERROR_INVALID_VALUE", "no"),
            None
        );
    }
}
